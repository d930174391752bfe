"""How a question is asked: where its records go, which session serves it, and what is kept of its answer."""

import datetime
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from legroom.answers import Answer
from legroom.engines.base import Engine
from legroom.engines.local import LocalEngine
from legroom.job import JobAddress
from legroom.logbook import Logbook, open_logbook
from legroom.probes.gpus import read_gpus
from legroom.probes.limits import read_limits
from legroom.probes.place import HOST_SHARE, Place
from legroom.probes.session import Progress, Session
from legroom.records import (
    EXPANDABLE,
    STEADY_MALLOC,
    Environment,
    RunStarted,
)

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
    engine: Engine | None = None
    """Where workers run; processes of this machine where absent."""
    together: str = ""
    """Questions with the same word here use each other's records, resumed or not; empty: this one stands alone."""


def machine_name() -> str:
    """This machine in a few words, the same each time it is asked."""
    limits, (gpus, _) = read_limits(), read_gpus()
    names = ", ".join(gpu.name for gpu in gpus) or "no GPU"
    return f"{platform.system()} {platform.machine()}, {limits.num_cores} cores, {names}"


def out_folder(address: JobAddress, run: Run) -> Path:
    """Where records of that job go."""
    return run.out or Path("legroom-out") / address.name


def open_session(command: str, address: JobAddress, run: Run, environment: Environment) -> Session:
    engine = run.engine or LocalEngine(
        silence_seconds=run.timeout, limit_bytes=int(HOST_SHARE * read_limits().available_bytes)
    )
    logbook = _logbook(command, address, run)
    return Session(address, engine, logbook, environment=environment, progress=run.progress)


def open_memory_session(command: str, address: JobAddress, run: Run, place: Place) -> Session:
    """A session whose proof on a GPU finds its process ready: it starts with the first one."""
    on_gpu = place.device == "cuda" and place.is_here
    session = open_session(command, address, run, EXPANDABLE if on_gpu else STEADY_MALLOC)
    if on_gpu:
        try:
            session.warm(EXPANDABLE)
        except BaseException:  # no process could be started: nobody else would let go of the folder
            session.close()
            raise
    return session


def _logbook(command: str, address: JobAddress, run: Run) -> Logbook:
    from legroom import __version__

    head = RunStarted(
        run="",
        job=address.text,
        options=address.options,
        digest=address.digest,
        machine=machine_name(),
        command=command,
        legroom_version=__version__,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        together=run.together,
    )
    folder = out_folder(address, run)
    return open_logbook(folder, head, resume=run.resume, hides=run.out is None)


def keep(session: Session, answer: AnyAnswer) -> AnyAnswer:
    """Save the answer beside the logbook and write the report anew: the last thing a question does."""
    # Imported here: rich alone costs 0.1 s, which every child and `import legroom` would pay.
    from legroom.reports.page import write_page
    from legroom.reports.saved import save_answer

    folder = session.logbook.path.parent
    try:
        save_answer(folder, answer)
        write_page(folder)
    except Exception as error:  # whatever is wrong with the page, the answer was paid for
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return replace(answer, notes=[*answer.notes, f"The report could not be written into {folder}: {why}"])
    return answer
