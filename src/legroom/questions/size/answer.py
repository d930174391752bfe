"""The answer of `legroom size`, with the names scripts rely on."""

from dataclasses import dataclass, field
from typing import Any

from legroom.questions.base import Answer

Range = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer(Answer):
    """How updates, loss, time and memory move with model size and data, and which size to take."""

    device: str
    vary: str
    """What was varied: width or depth."""
    rate_rule: str
    """fixed: the job's own rate at every size. mup: scaled with the width for each kind of parameter."""
    batch_size: int
    k1: float | None
    """Exponent of the data; None where its range is wider than itself."""
    k1_range: Range
    k2: float | None
    """Exponent of the parameters; None where its range is wider than itself."""
    k2_range: Range
    a: float | None
    """None, as b, where its range is wider than itself."""
    a_range: Range = (None, None)
    b: float | None
    """Updates that no larger model gets below."""
    b_range: Range
    holds_one: dict[str, bool | None]
    """Whether the ranges of k1 and k2 hold 1, which N. Ardalani et al. (2018) state; None of one that is not told."""
    falls_with_size: bool | None = None
    """Whether larger models need fewer updates; None where the range of k2 holds 0."""
    laws: dict[str, Any] = field(default_factory=dict)
    """Of updates, loss and seconds a step through all trials, those held out among them, each number with a range."""
    plateau: float | None
    """Parameters from which on twice as many save less than 5 % of the updates, on the whole data; None: open."""
    plateau_range: Range
    """Within the sizes tried and twice the largest; None as its end: the trials do not bound it."""
    plateau_passed: bool = False
    """Whether it begins at the smallest size tried or below."""
    points: list[dict[str, Any]]
    """Every trial, with what the law gives there."""
    held_out: list[dict[str, Any]]
    """Where the law, fitted on smaller sizes and less data alone, was compared with what was measured."""
    recommended_width: int | None
    recommended_depth: int | None
    own_value: int | None
    """Of the job as it is."""
    target: dict[str, Any]
    """`loss`, and where it comes from: `given`; `own`, what the job's own size reaches; else `largest tried`, its."""
    times: list[dict[str, Any]]
    """Of each size: updates and seconds to the target in the middle of its runs, how many of them reached it;
    `cooled_seconds` of the shortest run that cooled down to it."""
    judged_fraction: float
    """Share of the data on which sizes are compared by time."""
    within: dict[str, Any]
    """The best loss within some seconds, and the size that gives it."""
    next_model: dict[str, Any]
    """What twice the parameters would buy."""
    next_data: dict[str, Any]
    """What twice the data would buy."""
    memory: dict[str, Any]
    """Bytes by parameters, and what fits."""
    fill: list[dict[str, Any]]
    """Of each size: seconds a step, and the share of the device's best pace that its kernels reach."""
    solvers: list[dict[str, Any]] = field(default_factory=list)
    """The law by optimizer, where they are compared."""
    solver_claims: dict[str, bool | None] = field(default_factory=dict)
    """Whether Adam needs fewer updates, and gains more by size; None where the ranges leave it open."""
    num_trials: int
    lines: list[dict[str, Any]] = field(default_factory=list)
    """Updates and loss over parameters for each share of the data by the scored fits, with ranges, for figures."""
    pace_line: dict[str, Any] = field(default_factory=dict)
    """Seconds a step over parameters, with its range."""
    settings: dict[str, Any]
