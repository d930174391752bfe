"""What was measured, on disk before the next probe starts: JSON lines, append-only, one writer, survives a kill."""

import datetime
import functools
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from legroom.claims import Claim
from legroom.errors import UsageError
from legroom.files import write_atomically, writing
from legroom.laws.ledger import RULES
from legroom.records import Entry, Request, Result, RunStarted, TracedMemory, to_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FILE_NAME = "logbook.jsonl"


class Logbook:
    """The records of one job in one folder. Open it with `open_logbook`."""

    def __init__(
        self, path: Path, head: RunStarted, known: list[Entry], notes: list[str], claim: Claim, *, hides: bool
    ) -> None:
        self.path, self.head = path, head
        self.known = known
        """Entries of earlier runs that this run may use instead of measuring again."""
        self.entries: list[Entry] = []
        """Entries this run asked for, recalled or measured, in order."""
        self.notes = notes
        self._claim, self._hides = claim, hides
        self._began = False

    def recall(self, request: Request) -> Result | None:
        """What an earlier run, or this one, saw for exactly this request."""
        for entry in reversed(self.known + self.entries):
            if entry.request == request:
                if entry not in self.entries:
                    self.entries.append(entry)
                return entry.result
        return None

    def record(self, request: Request, result: Result, seconds: float) -> None:
        """Write the entry; it is on disk when this returns (0.25 ms)."""
        if not self._began:  # a run that measured nothing leaves no trace, so a mistyped job claims no folder
            self._begin()
        entry = Entry(run=self.head.run, request=request, result=result, seconds=seconds, at=_now())
        self._append({"entry": to_json(entry)})
        self.entries.append(entry)

    def seconds(self) -> float:
        """What this run spent measuring; what it recalled was paid for before."""
        return sum(entry.seconds for entry in self.entries if entry.run == self.head.run)

    def close(self) -> None:
        """Let others write to the folder."""
        self._claim.release()

    def _begin(self) -> None:
        if self._hides:
            write_atomically(self.path.parent.parent / ".gitignore", "*\n")
        self._append({"head": to_json(self.head)})
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
        return Logbook(path, replace(head, run=uuid.uuid4().hex[:12]), known, notes, claim, hides=hides)
    except BaseException:
        claim.release()
        raise


def read_logbook(folder: Path) -> tuple[RunStarted, list[Entry]]:
    """The last run's head and all entries of that job: enough to advise and report again without measuring."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise UsageError(f"There is no logbook in {folder}. Name a folder that a legroom command wrote with --out")
    heads, entries, _ = read_lines(path)
    if not heads:
        raise UsageError(f"{path} holds no run yet")
    return heads[-1], entries


def read_lines(path: Path) -> tuple[list[RunStarted], list[Entry], int]:
    """Heads, entries and the number of lines that are neither."""
    heads: list[RunStarted] = []
    entries: list[Entry] = []
    num_bad = 0
    for line in _lines(path):
        try:
            data = json.loads(line)
            if "head" in data:
                heads.append(_reader(RunStarted).validate_python(data["head"]))
            else:
                entries.append(_reader(Entry).validate_python(data["entry"]))
        except (ValueError, KeyError, TypeError):
            num_bad += 1
    return heads, entries, num_bad


def result_from(data: Any) -> Result:
    """A result that crossed a process border, checked."""
    return _reader(Result).validate_python(data)  # type: ignore[no-any-return]


@functools.cache
def _reader(kind: Any) -> "TypeAdapter[Any]":
    # pydantic stands at the border alone: importing it costs 80 ms that `--help` should not pay.
    from pydantic import Field, TypeAdapter

    checked: Any = Annotated[kind, Field(discriminator="kind")] if kind is Result else kind
    return TypeAdapter(checked)


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        yield from path.read_bytes().splitlines()


def _cut_torn_tail(path: Path) -> None:
    """Drop a half-written last line, or the next record would be glued to it and lost."""
    if not path.is_file():
        return
    content = path.read_bytes()
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
    found = [entry for entry in entries if entry.run in same]
    current = [entry for entry in found if not _by_other_rules(entry.result)]
    if len(current) < len(found):
        notes.append("Estimates made by the rules of another version of legroom were not used again")
    return current


def _by_other_rules(result: Result) -> bool:
    return isinstance(result, TracedMemory) and result.estimate.get("rules") != RULES


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
