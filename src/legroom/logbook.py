"""What was measured, on disk before the next probe starts: JSON lines, append-only, one writer, survives a kill."""

import datetime
import functools
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from legroom.errors import UsageError
from legroom.files import Claim, reading, write_atomically, writing
from legroom.requests import JobDescription, Request, record_from, to_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FILE_NAME = "logbook.jsonl"


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The head of a run in a logbook: whose records follow."""

    run: str
    job: str
    options: Mapping[str, str]
    digest: str
    machine: str
    command: str
    legroom_version: str
    started_at: str
    together: str = ""
    """A word that questions of one command share; empty where one was asked alone."""
    question: Mapping[str, Any] = field(default_factory=dict)
    """What was asked, once the job is known; a second head of the same run brings it. Empty in older logbooks."""
    variables: Mapping[str, str] | None = None
    """Of the user's environment, those that tell in times and memory; None in older logbooks."""

    def has_variables(self, now: Mapping[str, str] | None) -> bool:
        """Whether they were the same, as far as anybody wrote them down."""
        return self.variables is None or now is None or dict(self.variables) == dict(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing asked and answered."""

    run: str
    request: Request[Any]
    result: Any
    seconds: float
    at: str


@dataclass(slots=True, kw_only=True)
class Records:
    """What one run knows: enough to advise, now or from disk."""

    head: RunStarted
    entries: list[Entry] = field(default_factory=list)
    """What this run asked for, recalled or measured, in order."""
    notes: list[str] = field(default_factory=list)

    def seconds(self) -> float:
        """What this run spent measuring; what it recalled was paid for before."""
        return sum(entry.seconds for entry in self.entries if entry.run == self.head.run)

    def description(self) -> JobDescription:
        """What the job is."""
        found = [entry.result for entry in self.entries if isinstance(entry.result, JobDescription)]
        if not found:
            raise UsageError("The logbook does not say what the job is. Ask the question again")
        return found[-1]


class Logbook:
    """The records of one job in one folder. Open it with `open_logbook`."""

    def __init__(self, path: Path, records: Records, known: list[Entry], claim: Claim, *, hides: bool) -> None:
        self.path, self.records = path, records
        self.known = known
        """Entries of earlier runs that this run may use instead of measuring again."""
        self._claim, self._hides = claim, hides
        self._began = False

    def recall(self, request: Request[Result]) -> Result | None:
        """What an earlier run, or this one, saw for exactly this request."""
        entries = self.records.entries
        for entry in reversed(self.known + entries):
            if entry.request == request:
                if entry not in entries:
                    entries.append(entry)
                return entry.result  # type: ignore[no-any-return]
        return None

    def ask(self, question: Any) -> None:
        """Note what is asked, though all that it needs be recalled, so that advice can be given again from the file."""
        self.records.head = replace(self.records.head, question=to_json(question))
        self._write_head()

    def record(self, request: Request[Result], result: Result, seconds: float) -> None:
        """Write the entry; it is on disk when this returns (0.25 ms)."""
        if not self._began:  # a run that learned nothing leaves no trace, so a mistyped job claims no folder
            self._write_head()
        entry = Entry(run=self.records.head.run, request=request, result=result, seconds=seconds, at=_now())
        self._append({"entry": to_json(entry)})
        self.records.entries.append(entry)

    def close(self) -> None:
        """Let others write to the folder."""
        self._claim.release()

    def _write_head(self) -> None:
        if self._hides and not self._began:
            write_atomically(self.path.parent.parent / ".gitignore", "*\n")
        self._append({"head": to_json(self.records.head)})
        self._began = True

    def _append(self, line: dict[str, Any]) -> None:
        with writing(self.path), self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def open_logbook(folder: Path, head: RunStarted, *, resume: bool, hides: bool = False) -> Logbook:
    """Open or begin the logbook in the folder, under a lock, with a torn tail cut off.

    Earlier records stay in any case; `resume` lets this run use those of the same job, file and machine. Those of
    questions asked together with this one may be used anyway. `hides`: the folder above is ours, and git is to
    pass it by.
    """
    claim = Claim(folder)
    path = folder / FILE_NAME
    try:
        _cut_torn_tail(path)
        heads, entries, num_bad = read_lines(path)
        _refuse_other_job(path, heads, head)
        notes = [f"{num_bad} lines of {path} are no records and were passed over"] if num_bad else []
        mine = [other for other in heads if resume or (head.together and other.together == head.together)]
        known = _usable(mine, entries, head, notes)
        records = Records(head=replace(head, run=uuid.uuid4().hex[:12]), notes=notes)
        return Logbook(path, records, known, claim, hides=hides)
    except BaseException:
        claim.release()
        raise


def read_records(folder: Path, command: str) -> Records:
    """What the last run of that command knew, with what it could recall: enough to advise again without measuring."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise UsageError(f"There is no logbook in {folder}. Name a folder that a legroom command wrote with --out")
    heads, entries, _ = read_lines(path)
    asked = [head for head in heads if head.command == command]
    if not asked:
        raise UsageError(f"{path} holds no run of legroom {command}. Run it with the same --out first")
    head = asked[-1]
    usable = _usable([other for other in heads if other.started_at <= head.started_at], entries, head, [])
    return Records(head=head, entries=[entry for entry in usable if entry.at <= _last(usable, head)])


def _last(entries: list[Entry], head: RunStarted) -> str:
    """When the run's last entry was written; of a run that recalled all of them, when it began."""
    return max((entry.at for entry in entries if entry.run == head.run), default=head.started_at)


def read_lines(path: Path) -> tuple[list[RunStarted], list[Entry], int]:
    """The last head of each run, entries, and the number of lines that are neither."""
    heads: dict[str, RunStarted] = {}
    entries: list[Entry] = []
    num_bad = 0
    for line in _lines(path):
        try:
            data = json.loads(line)
            if "head" in data:
                head = _head_reader().validate_python(data["head"])
                heads[head.run] = head
            else:
                entries.append(_entry(data["entry"]))
        except (ValueError, KeyError, TypeError, StopIteration):
            num_bad += 1
    return list(heads.values()), entries, num_bad


def _entry(data: Mapping[str, Any]) -> Entry:
    read = {"request": record_from(data["request"]), "result": record_from(data["result"])}
    return Entry(run=str(data["run"]), seconds=float(data["seconds"]), at=str(data["at"]), **read)


@functools.cache
def _head_reader() -> "TypeAdapter[RunStarted]":
    # pydantic stands at the border alone: importing it costs 80 ms that `--help` should not pay.
    from pydantic import TypeAdapter

    return TypeAdapter(RunStarted)


def _lines(path: Path) -> Sequence[bytes]:
    with reading(path):
        return path.read_bytes().splitlines() if path.is_file() else []


def _cut_torn_tail(path: Path) -> None:
    """Drop a half-written last line, or the next record would be glued to it and lost."""
    with reading(path):
        content = path.read_bytes() if path.is_file() else b""
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def _refuse_other_job(path: Path, heads: list[RunStarted], head: RunStarted) -> None:
    for other in heads:
        if (other.job, dict(other.options)) != (head.job, dict(head.options)):
            words = "".join(f" --with {name}={value}" for name, value in other.options.items())
            raise UsageError(f"{path} is the logbook of {other.job}{words}. Name another folder with --out")


def _usable(heads: list[RunStarted], entries: list[Entry], head: RunStarted, notes: list[str]) -> list[Entry]:
    same_machine = {other.run for other in heads if other.machine == head.machine}
    same = {other.run for other in heads if other.digest == head.digest} & same_machine
    if len(same_machine) < len(heads):
        notes.append("Records made on another machine were not used again")
    if len(same) < len(same_machine):
        notes.append("Records made before the job's file, or one that it imports, changed were not used again")
    alike = {other.run for other in heads if other.has_variables(head.variables)} & same
    if len(alike) < len(same):
        notes.append("Records made with other variables of the environment, as OMP_NUM_THREADS, were not used again")
    found = [entry for entry in entries if entry.run in alike]
    current = [entry for entry in found if entry.request.is_current(entry.result)]
    if len(current) < len(found):
        notes.append("Estimates made by the rules of another version of legroom were not used again")
    return current


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
