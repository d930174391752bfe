"""Peak memory of a training step: in each phase a line in the batch size, over all phases their maximum.

    memory(B) = max over phases p of (fixed_p + slope_p * B)

At small B the peak can lie in the update (temporaries as large as the parameters) and at large B in backward:
one line through both would be wrong, so each phase has its own. Two probes of one number, as in A. Tripathi,
Analysis of Storage Bottlenecks in Deep Learning Models (2019), eq. 4.7, are the case of a single phase.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

UNBOUNDED = 1 << 62
"""The largest batch where memory does not grow with the batch."""
LARGEST_BATCH = 2**20
"""No run has use for a larger batch, and building one of tiny samples would take minutes."""
CLEAR_BYTES = 16 * 2**20
"""A rise above this is the batch's doing; the resident size of an idle process wanders by a few MiB."""

Points = Sequence[tuple[int, Mapping[str, int]]]
"""(batch size, peak bytes of each phase)."""


@dataclass(frozen=True, slots=True)
class Line:
    """bytes(B) = fixed_bytes + bytes_per_sample * B."""

    fixed_bytes: float
    bytes_per_sample: float

    def at(self, batch_size: float) -> float:
        """Bytes at that batch size."""
        return self.fixed_bytes + self.bytes_per_sample * batch_size


@dataclass(frozen=True, slots=True)
class MemoryLaw:
    """The maximum over phases."""

    phases: Mapping[str, Line]

    def at(self, batch_size: float) -> float:
        """Peak bytes at that batch size.

        >>> MemoryLaw({"backward": Line(100, 3), "update": Line(400, 0)}).at(10)
        400
        """
        return max(line.at(batch_size) for line in self.phases.values())

    def line_at(self, batch_size: float) -> Line:
        """The line that rules at that batch size."""
        return max(self.phases.values(), key=lambda line: line.at(batch_size))

    def largest_batch(self, budget_bytes: float) -> int:
        """The largest batch within the budget, 0 if none: the smallest limit over all phases.

        >>> MemoryLaw({"backward": Line(100, 3), "update": Line(400, 0)}).largest_batch(1000)
        300
        """
        return min(_largest(line, budget_bytes) for line in self.phases.values())


def _largest(line: Line, budget_bytes: float) -> int:
    if line.bytes_per_sample <= 0:
        return UNBOUNDED if line.fixed_bytes <= budget_bytes else 0
    return max(0, min(UNBOUNDED, math.floor((budget_bytes - line.fixed_bytes) / line.bytes_per_sample + 1e-9)))


def fit_line(points: Sequence[tuple[int, float]]) -> Line:
    """Least squares weighted by batch size: what is asked for lies beyond the largest size, so that one counts most.

    A slope below zero is noise of a peak that does not depend on the batch: it is taken as zero.

    >>> fit_line([(2, 1008.0), (6, 1024.0)])
    Line(fixed_bytes=1000.0, bytes_per_sample=4.0)
    """
    total = sum(size for size, _ in points)
    mean_size = sum(size * size for size, _ in points) / total
    mean_bytes = sum(size * value for size, value in points) / total
    variance = sum(size * (size - mean_size) ** 2 for size, _ in points)
    covariance = sum(size * (size - mean_size) * (value - mean_bytes) for size, value in points)
    slope = max(0.0, covariance / variance) if variance else 0.0
    return Line(mean_bytes - slope * mean_size if slope else max(value for _, value in points), slope)


def fit_memory(points: Points) -> MemoryLaw:
    """A line for each phase, through the sizes where the batch shows above the noise.

    >>> law = fit_memory([(2, {"backward": 108, "update": 400}), (102, {"backward": 508, "update": 400})])
    >>> law.largest_batch(1000), law.line_at(300).bytes_per_sample
    (225, 4.0)
    """
    names = sorted(set.intersection(*(set(phases) for _, phases in points)))
    return MemoryLaw(
        {name: fit_line(clear_points([(size, phases[name]) for size, phases in points])) for name in names}
    )


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
