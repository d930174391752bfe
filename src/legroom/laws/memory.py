"""Peak memory of a training step: a line in the batch size at each moment of it, and over all moments their maximum.

    memory(B) = max over lines l of (fixed_l + slope_l * B)     largest(cap) = min over l of (cap - fixed_l) / slope_l

At small B the peak can lie in the update (temporaries as large as the parameters) and at large B in backward: one
line through both would be wrong. Each phase that is measured has a line, and each moment of a step that is traced.
Two probes of one number, as in A. Tripathi, Analysis of Storage Bottlenecks in Deep Learning Models (2019), eq. 4.7,
are the case of a single phase.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

UNBOUNDED = 1 << 62
"""The largest batch where memory does not grow with the batch."""
LARGEST_BATCH = 2**20
"""No run has use for a larger batch, and building one of tiny samples would take minutes."""
CLEAR_BYTES = 16 * 2**20
"""A rise above this is the batch's doing; the resident size of an idle process wanders by a few MiB."""
GROWTH_BYTES = 2**19
"""A peak that rises by less from step to step may be noise."""
MANY_RISES, FEW_FACTOR = 6, 8
"""Fewer rises than this prove a growth only where they are so many times as large."""

Points = Sequence[tuple[int, Mapping[str, int]]]
"""(batch size, peak bytes of each phase)."""


@dataclass(frozen=True, slots=True)
class Line:
    """bytes(B) = fixed_bytes + bytes_per_sample * B, at one moment of a step or over one phase of it."""

    fixed_bytes: float
    bytes_per_sample: float
    phase: str = ""
    """The part of the step: data, forward, backward, update or evaluation."""
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Category -> its own fixed bytes and bytes per sample; empty where only the sum was measured."""

    def at(self, batch_size: float) -> float:
        """Bytes at that batch size."""
        return self.fixed_bytes + self.bytes_per_sample * batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The fullest moment of a step at one batch size."""

    num_bytes: int
    phase: str
    parts: Mapping[str, int]
    """Category -> bytes; empty where only the sum was measured."""


@dataclass(frozen=True, slots=True)
class MemoryLaw:
    """The maximum over lines: one for each phase where phases were measured, an envelope where a step was traced.

    >>> law = MemoryLaw((Line(400, 0, "update"), Line(100, 3, "backward")))
    >>> law.at(10), law.peak(10).phase, law.peak(300).phase
    (400, 'update', 'backward')
    >>> law.largest_batch(1000), law.largest_batch(999), law.largest_batch(399)
    (300, 299, 0)
    """

    lines: tuple[Line, ...]

    def at(self, batch_size: float) -> float:
        """Peak bytes at that batch size."""
        return self.line_at(batch_size).at(batch_size)

    def line_at(self, batch_size: float) -> Line:
        """The line that rules at that batch size."""
        return max(self.lines, key=lambda line: line.at(batch_size))

    def peak(self, batch_size: int) -> Peak:
        """The fullest moment at that batch size, and what its bytes are."""
        line = self.line_at(batch_size)
        parts = {name: round(fixed + slope * batch_size) for name, (fixed, slope) in line.parts.items()}
        return Peak(num_bytes=round(line.at(batch_size)), phase=line.phase, parts=parts)

    def largest_batch(self, budget_bytes: float) -> int:
        """The largest batch within the budget, 0 if none: the smallest limit over all lines."""
        return min(_largest(line, budget_bytes) for line in self.lines)

    def only(self, phase: str) -> "MemoryLaw":
        """The law of one phase."""
        return MemoryLaw(tuple(line for line in self.lines if line.phase == phase))

    def with_slack(self, num_bytes: float, share: float) -> "MemoryLaw":
        """The same law with so many bytes, and this share of all bytes, more at every moment."""
        return MemoryLaw(tuple(_raise(line, num_bytes, share) for line in self.lines))


def _largest(line: Line, budget_bytes: float) -> int:
    if line.bytes_per_sample <= 0:
        return UNBOUNDED if line.fixed_bytes <= budget_bytes else 0
    return max(0, min(UNBOUNDED, math.floor((budget_bytes - line.fixed_bytes) / line.bytes_per_sample + 1e-9)))


def _raise(line: Line, num_bytes: float, share: float) -> Line:
    fixed, slope = line.parts.get("other", (0.0, 0.0))
    more = (num_bytes + share * line.fixed_bytes, share * line.bytes_per_sample)
    parts = {**line.parts, "other": (fixed + more[0], slope + more[1])}
    return Line(line.fixed_bytes + more[0], line.bytes_per_sample + more[1], line.phase, parts)


def growth(steps: Sequence[Mapping[str, int]]) -> int:
    """Bytes by which the peak still rises from each step to the next; 0 where it has settled.

    What is kept from step to step lies there in every phase, so that most of them must rise; a heap that is still being
    filled shows in one. Phases that few steps have, such as an evaluation, do not tell.

    >>> steps = [{"forward": 500, "backward": 900, "update": 400 + 2**21 * number} for number in range(9)]
    >>> growth(steps), growth([{**step, "backward": step["update"]} for step in steps]) == 2**21
    (0, True)
    """
    names = {name for step in steps for name in step}
    peaks = [found for name in names if len(found := [step[name] for step in steps if name in step]) > len(steps) / 2]
    return int(statistics.median(map(growth_of, peaks))) if peaks else 0


def growth_of(peaks: Sequence[float]) -> float:
    """Bytes by which a peak still rises from each step to the next; 0 where it has settled.

    The first step has no optimizer state yet. Noise rises and falls; what is kept from step to step only rises.

    A heap that fills up rises too, by less and less: the later half of the steps decides, and few steps must rise more.

    >>> MIB = 2**20
    >>> growth_of([80 * MIB, 100 * MIB, 116 * MIB, 132 * MIB, 148 * MIB]) / MIB
    16.0
    >>> growth_of([80 * MIB, 100 * MIB, 103 * MIB, 101 * MIB, 103 * MIB])
    0.0
    >>> growth_of([80 * MIB, 100 * MIB, 102 * MIB, 104 * MIB, 105 * MIB])
    0.0
    """
    rises = [after - before for before, after in itertools.pairwise(peaks[1:])]
    if len(rises) < 3 or sum(rise > 0 for rise in rises) < 0.8 * len(rises):
        return 0.0
    middle = statistics.median(rises[len(rises) // 2 :])
    return middle if middle > (GROWTH_BYTES if len(rises) >= MANY_RISES else FEW_FACTOR * GROWTH_BYTES) else 0.0


def fit_line(points: Sequence[tuple[int, float]], phase: str = "") -> Line:
    """Least squares weighted by batch size: what is asked for lies beyond the largest size, so that one counts most.

    A slope below zero is noise of a peak that does not depend on the batch: it is taken as zero.

    >>> fit_line([(2, 1008.0), (6, 1024.0)]) == Line(1000.0, 4.0)
    True
    """
    total = sum(size for size, _ in points)
    mean_size = sum(size * size for size, _ in points) / total
    mean_bytes = sum(size * value for size, value in points) / total
    variance = sum(size * (size - mean_size) ** 2 for size, _ in points)
    covariance = sum(size * (size - mean_size) * (value - mean_bytes) for size, value in points)
    slope = max(0.0, covariance / variance) if variance else 0.0
    return Line(mean_bytes - slope * mean_size if slope else max(value for _, value in points), slope, phase)


def fit_memory(points: Points) -> MemoryLaw:
    """A line for each phase, through the sizes where the batch shows above the noise.

    Where it was read, `reserved` is what a GPU's allocator held in all: the lines are raised by the share that it held
    above the fullest phase at the largest size. At small sizes that share is mostly rounding.

    >>> law = fit_memory([(2, {"backward": 108, "update": 400}), (102, {"backward": 508, "update": 400})])
    >>> law.largest_batch(1000), law.line_at(300).bytes_per_sample
    (225, 4.0)
    """
    names = sorted(set.intersection(*(set(phases) for _, phases in points)) - {"reserved"})
    lines = (fit_line(clear_points([(size, phases[name]) for size, phases in points]), name) for name in names)
    last = points[-1][1]
    share = max(0.0, last.get("reserved", 0) / max(last[name] for name in names) - 1)
    return MemoryLaw(tuple(lines)).with_slack(0.0, share) if share else MemoryLaw(tuple(lines))


def clear_points(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """The points a line is drawn through: those clear of the first one's noise, or else the last two."""
    clear = [point for point in points if point[1] - points[0][1] >= CLEAR_BYTES]
    return clear if len(clear) > 1 else points[-2:]


def split_batch(effective_batch: int, largest: int) -> tuple[int, int]:
    """Micro-batch and accumulation steps whose product is at least the batch wanted, in as few passes as fit.

    An exact product is taken where at most half as many passes again give one; else the last micro-batch is smaller.

    >>> split_batch(256, 100), split_batch(64, 100), split_batch(101, 50)
    ((64, 4), (64, 1), (34, 3))
    """
    fewest = math.ceil(effective_batch / largest)
    for steps in range(fewest, fewest + fewest // 2 + 1):
        if effective_batch % steps == 0:
            return effective_batch // steps, steps
    return math.ceil(effective_batch / fewest), fewest
