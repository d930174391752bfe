"""What a section of the report holds, as plain data: a sentence, facts, figures and tables."""

from dataclasses import dataclass, field
from typing import Any, Literal

Unit = Literal["bytes", "exact bytes", "seconds", "samples/s", "share", ""]
"""What a number counts; text turns bytes into GiB and shares into percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What one direction of a figure shows."""

    label: str
    unit: Unit = ""
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together; None leaves a gap."""

    name: str
    x: list[Any]
    y: list[float | None]
    style: Literal["line", "dashes", "points", "crosses", "bars"] = "line"
    spread: list[float | None] = field(default_factory=list)
    """How far each point may be off, as a share of it; empty where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across a figure at one value: a budget, a limit, the value chosen."""

    axis: Literal["x", "y"]
    value: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """All that is needed to draw it, in bytes, seconds and shares."""

    name: str
    """Unique on the page; scripts find the figure by it."""
    title: str
    x: Axis
    y: Axis
    series: list[Series]
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one column of a table shows."""

    label: str
    unit: Unit = ""
    sentences: bool = False
    """Whether it holds sentences, which a narrow page gives a line of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of values, in bytes, seconds and shares."""

    name: str
    title: str
    columns: list[Column]
    rows: list[list[Any]]
    chosen: list[int] = field(default_factory=list)
    """Which rows hold the values recommended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One question of the report."""

    title: str
    """The question."""
    summary: str
    """Its answer in one sentence."""
    facts: list[tuple[str, str, str]]
    """Name, value, remark."""
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
