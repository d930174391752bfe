"""The parent's side of a question: opens its logbook and its child, asks, keeps the answer."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from legroom.clock import Clock, monotonic
from legroom.engines.base import Child, Engine
from legroom.engines.local import LocalEngine
from legroom.environments import STEADY_MALLOC, UNCHANGED, Environment, user_variables
from legroom.errors import OutOfMemory, UsageError
from legroom.host import Host, read_host
from legroom.host.target import HOST_SHARE
from legroom.job_address import JobAddress, out_folder
from legroom.logbook import FILE_NAME, Entry, Logbook, Records, RunStarted, open_logbook, read_lines, read_records
from legroom.questions import part_of
from legroom.questions.base import Answer
from legroom.requests import Describe, JobDescription, Request

ENOUGH_CORES = 4
BUSY_SHARE = 0.2
"""Of all cores, that other programs may use before it is worth a word."""
Progress = Callable[[str, float], None]
"""Called with what happens now and the share of the work done, 0 to 1."""
Result = TypeVar("Result")
AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a question is asked: where records go, what may be used again, who is told of progress."""

    out: Path | None = None
    """Folder of logbook, plan and report; legroom-out/<job> where absent."""
    resume: bool = False
    """Use what an earlier run in that folder measured."""
    seed: int = 0
    timeout: float = 300.0
    """Seconds a job may do nothing before it counts as hung."""
    progress: Progress = lambda message, share: None
    tell: Callable[[str], None] = lambda sentence: None
    """Told at once what a person may want to stop for."""
    found: Callable[[str], None] = lambda sentence: None
    """Told at once what a part of a long question found."""
    engine: Engine | None = None
    """Where children run; processes of this machine where absent."""
    host: Host = field(default_factory=read_host)
    """The machine in question; tests plant one."""
    clock: Clock = monotonic
    """By which budgets end; tests plant one."""
    recalled: Callable[[Entry], None] = lambda entry: None
    """Told what was measured before and is used again."""
    together: str = ""
    """Questions with the same word here use each other's records, resumed or not; empty: this one stands alone."""

    def busy_notes(self) -> list[str]:
        """A sentence where other programs use cores that timings need, told at once."""
        busy, num = self.host.busy_cores(), self.host.limits.num_cores
        if busy < BUSY_SHARE * num:
            return []
        sentence = (
            f"Other programs use {busy:.1f} of {num} cores: seconds will be too long and differ from run to run, small "
            "steps on a CPU most. Stop those programs, or ask again when they are done"
        )
        self.tell(sentence)
        return [sentence]


class Session:
    """Asks requests of one job: one shared child for what can be shared, a fresh one for each proof."""

    def __init__(
        self,
        address: JobAddress,
        engine: Engine,
        logbook: Logbook,
        *,
        environment: Environment = STEADY_MALLOC,
        alone: bool = False,
        progress: Progress = lambda message, share: None,
        host: Host | None = None,
        clock: Clock = monotonic,
        recalled: Callable[[Entry], None] = lambda entry: None,
    ) -> None:
        self.address, self.engine, self.logbook = address, engine, logbook
        self.progress, self._now, self._tell_recalled = progress, clock, recalled
        self._recalled_seconds = 0.0
        self.host = host or read_host()
        self._shared: Child | None = None
        self._environment = environment
        """Of the shared child: that of the questions to come, for requests that any child can answer."""
        self._alone = alone
        """Whether the shared child is started anew: where requests will need that, and where no other child follows."""
        self._spares: dict[tuple[tuple[str, str | None], ...], Child] = {}
        """Started early, by their environment."""

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the childs and let others write to the folder."""
        self._drop_shared()
        for child in self._spares.values():
            child.close()
        self.logbook.close()

    @property
    def records(self) -> Records:
        """What this run knows by now."""
        return self.logbook.records

    def clock(self) -> float:
        """Seconds by which budgets end: what was recalled counts as it did when it was measured.

        So a search that was killed and goes on decides as one that was not.
        """
        return self._now() + self._recalled_seconds

    def ask(self, request: Request[Result]) -> Result:
        """The answer from the logbook, or measured now and written down before this returns."""
        num_before = len(self.records.entries)
        known = self.logbook.recall(request)
        if len(self.records.entries) > num_before:  # of an earlier run, and asked for the first time in this one
            self._recalled_seconds += self.records.entries[-1].seconds
            self._tell_recalled(self.records.entries[-1])
        return known if known is not None else self.measure(request)

    def measure(self, request: Request[Result]) -> Result:
        """The answer measured now, whatever the logbook knows, and written down before this returns."""
        started = self._now()
        result = self._measure(request)
        self.logbook.record(request, result, self._now() - started)
        return result

    def note(self, question: Any) -> None:
        """Write down what is asked, so that advice can be given again from the file."""
        self.logbook.ask(question)

    def describe(self, seed: int) -> JobDescription:
        """What the job is."""
        self.progress("reading the job", 0.02)
        return self.ask(Describe(seed=seed))

    def _measure(self, request: Request[Result]) -> Result:
        try:
            return self._ask_child(request)
        except OutOfMemory:
            self._drop_shared()
            meaning = request.on_out_of_memory()
            if meaning is None:
                raise
            return meaning
        except Exception:
            self._drop_shared()
            raise

    def _ask_child(self, request: Request[Result]) -> Result:
        if request.fresh:
            return self._ask_fresh(request)
        environment = request.environment
        if environment not in (None, self._environment) or (request.alone and not self._alone):
            self._drop_shared()
        if self._shared is None:
            self._environment = self._environment if environment is None else environment
            self._alone = self._alone or request.alone
            self._shared = self.engine.start(self.address, self._environment, alone=self._alone)
        return self._shared.ask(request, self.progress)

    def _ask_fresh(self, request: Request[Result]) -> Result:
        # Both would hold memory at once, and the proof has to see the machine as training will.
        self._drop_shared()
        environment = request.environment or {}
        child = self._spares.pop(tuple(environment.items()), None)
        child = child or self.engine.start(self.address, environment, alone=request.alone)
        try:
            return child.ask(request, self.progress)
        finally:
            child.close()

    def release(self) -> None:
        """End the shared child, so that others have its memory."""
        self._drop_shared()

    def warm(self, environment: Environment) -> None:
        """Start the child of a fresh request that will come, so that it imports and builds while others measure.

        It is started anew, as nobody then waits for an import. On few cores it would only slow the others down.
        """
        name = tuple(environment.items())
        if name not in self._spares and self.host.limits.num_cores >= ENOUGH_CORES:
            self._spares[name] = self.engine.start(self.address, environment, alone=True)

    def _drop_shared(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None


def open_session(
    command: str, address: JobAddress, run: Run, environment: Environment = UNCHANGED, *, alone: bool = False
) -> Session:
    """The session of one command; what its child is started with differs from the user's environment in that."""
    engine = run.engine or LocalEngine(
        silence_seconds=run.timeout, limit_bytes=int(HOST_SHARE * run.host.limits.available_bytes)
    )
    logbook = _logbook(command, address, run)
    return Session(
        address,
        engine,
        logbook,
        environment=environment,
        alone=alone,
        progress=run.progress,
        host=run.host,
        clock=run.clock,
        recalled=run.recalled,
    )


def _logbook(command: str, address: JobAddress, run: Run) -> Logbook:
    from legroom import __version__

    head = RunStarted(
        run="",
        job=address.text,
        options=address.options,
        digest=address.digest,
        machine=run.host.name,
        command=command,
        legroom_version=__version__,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        together=run.together,
        variables=user_variables(),
    )
    folder = out_folder(address, run.out)
    return open_logbook(folder, head, resume=run.resume, hides=run.out is None)


def keep(session: Session, answer: AnyAnswer) -> AnyAnswer:
    """Save the answer beside the logbook and write the report anew: the last thing a question does."""
    # Imported here: rich alone costs 0.1 s, which every child and `import legroom` would pay.
    from legroom.reports.page import write_page
    from legroom.reports.saved_answers import save_answer

    session.progress("done", 1.0)

    folder = session.logbook.path.parent
    try:
        save_answer(folder, answer)
        write_page(folder)
    except Exception as error:  # whatever is wrong with the page, the answer was paid for
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return replace(answer, notes=[*answer.notes, f"The report could not be written into {folder}: {why}"])
    return answer


def earlier_entries(address: JobAddress, run: Run) -> list[Entry]:
    """What the job's folder holds already: the best guess of what a question will cost."""
    return read_lines(out_folder(address, run.out) / FILE_NAME)[1]


def advise_again(folder: Path, question: str) -> Any:
    """The answer to a question from its saved logbook, without measuring."""
    from pydantic import TypeAdapter

    records, asked, advice = read_records(folder, question), part_of(question, "records"), part_of(question, "advice")
    assert asked is not None
    assert advice is not None
    words = dict(records.head.question)
    if not words and not hasattr(asked, "default_question"):  # such questions came after heads held it
        raise UsageError(f"The last run of legroom {question} ended before it knew what was asked. Ask again")
    made = TypeAdapter(asked.QUESTION).validate_python(words) if words else asked.default_question(records)
    return advice.advise(records, made)
