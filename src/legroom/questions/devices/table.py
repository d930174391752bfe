"""Published times of one and more devices as input: what they say, by our laws, and what in them cannot be true.

A CSV file. Lines `# name = value` at its head hold facts; then a row of column names and one row a time:

    # num_samples = 50000
    table,num_devices,batch_size,seconds,speedup,communication_seconds,bandwidth
    Q2,2,32,44.222406,1.41695,,

seconds: of an epoch. batch_size: per device. The last three columns: as published, where they are.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from legroom.errors import UsageError

COLUMNS = ("table", "num_devices", "batch_size", "seconds")
MORE_COLUMNS = ("speedup", "communication_seconds", "bandwidth")
FACTS = ("num_samples", "num_parameters")
MORE_FACTS = ("bytes_per_parameter", "flops_per_sample", "peak_flops", "boost_flops")
TEXTS = ("title", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """One row."""

    table: str
    num_devices: int
    batch_size: int
    seconds: float
    speedup: float | None = None
    """This and what follows as published, where it is."""
    communication_seconds: float | None = None
    bandwidth: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A file of published times."""

    title: str
    device: str
    facts: Mapping[str, float]
    times: Sequence[Time]

    @property
    def gradient_bytes(self) -> float:
        """Of an update."""
        return self.facts["num_parameters"] * self.facts.get("bytes_per_parameter", 4)

    def updates(self, time: Time) -> float:
        """Of an epoch, in fractions, as such tables count them."""
        return self.facts["num_samples"] / (time.batch_size * time.num_devices)

    def find(self, table: str, num_devices: int, batch_size: int) -> Time | None:
        """That row, where there is one."""
        wanted = (table, num_devices, batch_size)
        return next((each for each in self.times if (each.table, each.num_devices, each.batch_size) == wanted), None)


def read_table(path: Path) -> Published:
    """What the file says; every fault is told with its line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise UsageError(f"--from-table {path} cannot be read: {why}. Name a CSV file of published times") from None
    facts: dict[str, float] = {}
    texts: dict[str, str] = {}
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    rows = [(number, line) for number, line in numbered if not line.startswith("#")]
    for number, line in numbered:
        if line.startswith("#") and "=" in line:
            name, _, value = (part.strip() for part in line[1:].partition("="))
            if name in TEXTS:
                texts[name] = value
            elif name in (*FACTS, *MORE_FACTS):
                facts[name] = _number(path, number, name, value)
    for name in FACTS:
        if name not in facts:
            raise UsageError(f"{path} does not say {name}. Add a line: # {name} = ...")
    if not rows:
        raise UsageError(f"{path} holds no times. Write a row of names, {','.join(COLUMNS)}, and one row a time")
    times = _times(path, rows)
    if not times:
        raise UsageError(f"{path} has a row of names and no times. Write one row a time below it")
    if not any(time.num_devices == 1 for time in times):
        raise UsageError(f"{path} has no time of one device, over which a speed-up is. Add rows whose num_devices is 1")
    return Published(
        title=texts.get("title", path.stem), device=texts.get("device", "device"), facts=facts, times=times
    )


def _times(path: Path, rows: Sequence[tuple[int, str]]) -> list[Time]:
    number, head = rows[0]
    names = [name.strip() for name in next(csv.reader([head]))]
    if missing := [name for name in COLUMNS if name not in names]:
        raise UsageError(f"{path}, line {number}: no column {', '.join(missing)}. Columns: {', '.join(COLUMNS)}")
    return [_time(path, number, names, next(csv.reader([line]))) for number, line in rows[1:]]


def _time(path: Path, line: int, names: Sequence[str], values: Sequence[str]) -> Time:
    if len(values) != len(names):
        raise UsageError(f"{path}, line {line}: {len(values)} values for {len(names)} columns. Give one for each")
    row = dict(zip(names, (value.strip() for value in values), strict=True))
    found = {name: _number(path, line, name, row[name]) for name in COLUMNS[1:]}
    more = {name: _number(path, line, name, row[name]) for name in MORE_COLUMNS if row.get(name)}
    for name in ("num_devices", "batch_size"):
        if found[name] != int(found[name]):
            raise UsageError(f"{path}, line {line}: {name} is {found[name]:g}; it must be a whole number")
    return Time(
        table=row["table"],
        num_devices=int(found["num_devices"]),
        batch_size=int(found["batch_size"]),
        seconds=found["seconds"],
        **more,
    )


def _number(path: Path, line: int, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise UsageError(f"{path}, line {line}: {name} is {text!r}; it must be a number above 0")
    return value
