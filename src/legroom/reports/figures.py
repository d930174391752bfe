"""What a section of the report holds, as plain data: a sentence, facts, figures and tables."""

from dataclasses import dataclass, field
from typing import Any, Literal

from legroom.laws.what_if import Factors

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
    style: Literal["line", "dashes", "points", "rings", "crosses", "bars"] = "line"
    """Laws are dashes, measurements that a law is checked against are rings, failures are crosses."""
    spread: list[float | None] = field(default_factory=list)
    """How far each point may be off, as a share of it; empty where nobody knows."""
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    """Between which values each point lies: a band around lines and dashes, else whiskers; empty where nobody knows."""
    group: str = ""
    """Series of one group share a colour, as what was measured and its law; empty: a colour of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across a figure at one value: a budget, a limit, the value chosen."""

    axis: Literal["x", "y"]
    value: float | str
    """A text on an axis of texts."""
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Values over two settings, each cell coloured by its own and written out; the axes are the figure's."""

    x: list[Any]
    y: list[Any]
    values: list[list[float | None]]
    """A row for each of `y`, from the lowest on; None leaves a gap."""
    label: str
    unit: Unit = ""
    log: bool = False
    """Whether colours follow the logarithm."""
    chosen: tuple[Any, Any] | None = None
    """The x and y of the cell to frame: the best, or the one recommended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """All that is needed to draw it, in bytes, seconds and shares."""

    name: str
    """Unique on the page; scripts find the figure by it."""
    title: str
    x: Axis
    y: Axis
    series: list[Series] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    stacked: bool = False
    """Whether bars stand on top of each other, as parts of a whole do; shares always do."""
    heat: HeatMap | None = None
    """In place of series."""


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
    opens: bool = False
    """Whether it stands right below the section's sentence, before all figures: before and after, at a glance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A run whose circumstances the reader may change; the page computes what follows by `laws.what_if`."""

    factors: Factors
    """As measured or as asked for, at the settings recommended."""
    candidates: list[int]
    """Samples of an update on a device, rising, among which the best is named and which the figure draws."""
    target: str
    """What the run is to reach, in words."""
    baseline_seconds: float | None = None
    """Of the job's own settings to the same target, where known."""
    guessed: dict[str, str] = field(default_factory=dict)
    """Factors that nobody measured or named, each with what stands in its place and why, as a sentence."""
    figure: str = ""
    """Name of the figure among the section's that is drawn anew with every change."""
    mark: str = "as recommended"
    """Label of the batch in the figure, until the reader changes it."""


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
    what_if: WhatIf | None = None
    """Controls that let the reader change the circumstances."""
