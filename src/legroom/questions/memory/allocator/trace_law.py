"""A step as births and deaths of storages, and the law of its memory that two such traces give.

Between two batch sizes the events are the same and each storage's bytes are affine in the batch size B, so what is
alive after event e is a line as well:

    peak(B) = max over e of (fixed_e + slope_e * B)

Only the upper envelope of these lines can ever be the maximum; a handful of lines is what is kept and sent.

Source: the maximum over phases instead of one line through two peaks is what the affine rule of Gao et al., DNNMem
(ESEC/FSE 2020), lacks at small batches, where the optimizer's temporaries hide the slope of the activations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from legroom.laws.memory import Line, MemoryLaw
from legroom.questions.memory.allocator.pools import BLOCK_BYTES, round_up

CATEGORIES = ("weights", "gradients", "optimizer", "activations", "workspace", "other")
"""What bytes can be: "other" is the batch itself and what the allocator cannot hand out."""
UNORDERED = (
    "Allocations come in another order at another batch size: the peaks of phases were fitted, which is less exact."
)

Size = tuple[float, float]
"""Bytes of one storage: fixed, and for each sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The birth or death of one storage."""

    storage: int
    """Number of the storage, in order of birth; the same in a trace at another batch size."""
    num_bytes: int | None
    """Bytes at birth; None at death."""
    phase: str
    """Part of the step: data, forward, backward, update or evaluation."""
    category: str
    """One of CATEGORIES."""
    operator: str = ""
    """What made the storage; traces are compared by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The events of one pass at one batch size, in order; what lived before comes first."""

    batch_size: int
    events: tuple[Event, ...]
    second_step: tuple[int, int] | None = None
    """Where among the events of a whole history the second step begins and ends."""


def fit(small: Trace, large: Trace) -> tuple[MemoryLaw, tuple[str, ...]]:
    """The law behind two traces, and notes on where they were not what a law needs.

    >>> def trace(size):
    ...     born = Event(storage=0, num_bytes=4000, phase="data", category="weights")
    ...     used = Event(storage=1, num_bytes=1024 * size, phase="forward", category="activations")
    ...     return Trace(batch_size=size, events=(born, used))
    >>> law, notes = fit(trace(4), trace(8))
    >>> law.lines[-1].fixed_bytes, law.lines[-1].bytes_per_sample, notes
    (4096.0, 1024.0, ())
    """
    sizes = (small.batch_size, large.batch_size)
    moments = pair(small, large)
    if moments is None:
        return MemoryLaw(_phase_lines(small, large)), (UNORDERED,)
    pairs = zip(_settle(small.events), _settle(large.events), strict=True)
    steep = [two for one, two in pairs if is_steep(one.num_bytes or 0, two.num_bytes or 0, sizes)]
    return MemoryLaw(_envelope(moments)), _note_steep(steep, sizes[1])


def pair(small: Trace, large: Trace) -> list[tuple[Event, Size]] | None:
    """Each event of the larger trace with its bytes' line; None where the smaller one has others, or another order."""
    sizes = (small.batch_size, large.batch_size)
    low, high = _settle(small.events), _settle(large.events)
    if _order(low) != _order(high):
        return None
    pairs = zip(low, high, strict=True)
    return [(two, line_through(one.num_bytes or 0, two.num_bytes or 0, sizes)) for one, two in pairs]


def line_through(small: int, large: int, sizes: tuple[int, int]) -> Size:
    """The line through a storage's bytes at two batch sizes; what does not move is rounded up to whole blocks.

    Bytes that shrink are held at their larger value, bytes that grow faster than the batch in proportion to it.

    >>> line_through(100, 100, (4, 8)), line_through(140, 180, (4, 8)), line_through(16, 64, (4, 8))
    ((512, 0.0), (100.0, 10.0), (0.0, 8.0))
    """
    slope = (large - small) / (sizes[1] - sizes[0])
    if slope <= 0:
        return round_up(max(small, large), BLOCK_BYTES), 0.0
    return (0.0, large / sizes[1]) if is_steep(small, large, sizes) else (large - slope * sizes[1], slope)


def is_steep(small: int, large: int, sizes: tuple[int, int]) -> bool:
    """Whether the line would start more than a sample below zero: masked rows counted by chance, or a square."""
    slope = (large - small) / (sizes[1] - sizes[0])
    return large - slope * sizes[1] < -slope


def _note_steep(steep: Sequence[Event], largest_size: int) -> tuple[str, ...]:
    if not steep:
        return ()
    worst = max(steep, key=lambda event: event.num_bytes or 0).operator
    return (
        f"{len(steep)} allocations grow faster than the batch (the largest in {worst}): the estimate is low for "
        f"batches well above {largest_size}.",
    )


def _settle(events: Iterable[Event]) -> list[Event]:
    """The events with each run of deaths in one order: what dies together dies in the order of a hash table."""
    settled: list[Event] = []
    for is_death, run in groupby(events, key=lambda event: event.num_bytes is None):
        together = list(run)
        settled += sorted(together, key=lambda event: event.storage) if is_death else together
    return settled


def _order(events: Iterable[Event]) -> list[tuple[int, bool, str, str]]:
    return [(event.storage, event.num_bytes is None, event.phase, event.operator) for event in events]


def _totals(moments: Iterable[tuple[Event, Size]]) -> list[Size]:
    """What is alive after each event."""
    alive: dict[int, Size] = {}
    fixed = slope = 0.0
    totals = []
    for event, size in moments:
        if event.num_bytes is None:
            sign, size = -1.0, alive.pop(event.storage, (0.0, 0.0))
        else:
            sign, alive[event.storage] = 1.0, size
        fixed, slope = fixed + sign * size[0], slope + sign * size[1]
        totals.append((fixed, slope))
    return totals


def _envelope(moments: Sequence[tuple[Event, Size]]) -> tuple[Line, ...]:
    """The moments that are the maximum for some batch of at least one sample, flattest first."""
    totals = _totals(moments)
    kept: list[int] = []
    for index in sorted(range(len(totals)), key=lambda index: (totals[index][1], totals[index][0])):
        while kept and _is_hidden(totals, kept, index):
            kept.pop()
        kept.append(index)
    parts = {index: _parts(moments[: index + 1]) for index in kept}
    return tuple(Line(*totals[index], moments[index][0].phase, parts[index]) for index in kept)


def _is_hidden(totals: Sequence[Size], kept: Sequence[int], new: int) -> bool:
    """Whether the last kept line is nowhere above both its neighbours for batches of one sample and more."""
    last, steeper = totals[kept[-1]], totals[new]
    if sum(steeper) >= sum(last):
        return True
    if len(kept) == 1:
        return False
    flatter = totals[kept[-2]]
    crossing = (flatter[0] - steeper[0]) / (steeper[1] - flatter[1])
    return last[0] + last[1] * crossing <= flatter[0] + flatter[1] * crossing


def _parts(moments: Iterable[tuple[Event, Size]]) -> dict[str, Size]:
    """What is alive after the last of these events, by category."""
    alive: dict[int, tuple[str, Size]] = {}
    for event, size in moments:
        if event.num_bytes is None:
            alive.pop(event.storage, None)
        else:
            alive[event.storage] = (event.category, size)
    parts = dict.fromkeys(CATEGORIES, (0.0, 0.0))
    for category, (fixed, slope) in alive.values():
        parts[category] = (parts[category][0] + fixed, parts[category][1] + slope)
    return parts


def _phase_lines(small: Trace, large: Trace) -> tuple[Line, ...]:
    """A line through each phase's peaks, for traces whose events cannot be paired."""
    sizes = (small.batch_size, large.batch_size)
    low, high = _phase_peaks(small), _phase_peaks(large)
    lines = []
    for phase in sorted(high, key=list(high).index):
        pairs = {name: (low.get(phase, high[phase])[name], high[phase][name]) for name in CATEGORIES}
        parts = {name: _straight(one, two, sizes) for name, (one, two) in pairs.items()}
        fixed, slope = (sum(part[side] for part in parts.values()) for side in (0, 1))
        lines.append(Line(fixed, slope, phase, parts))
    return tuple(sorted(lines, key=lambda line: line.bytes_per_sample))


def _straight(small: float, large: float, sizes: tuple[int, int]) -> Size:
    slope = (large - small) / (sizes[1] - sizes[0])
    return large - slope * sizes[1], slope


def _phase_peaks(trace: Trace) -> dict[str, dict[str, float]]:
    """Phase -> bytes by category at its fullest moment."""
    moments = [(event, line_through(event.num_bytes or 0, event.num_bytes or 0, (0, 1))) for event in trace.events]
    fullest: dict[str, tuple[float, int]] = {}
    for index, ((event, _), (total, _)) in enumerate(zip(moments, _totals(moments), strict=True)):
        fullest[event.phase] = max(fullest.get(event.phase, (0.0, 0)), (total, index))
    return {
        phase: {name: part[0] for name, part in _parts(moments[: index + 1]).items()}
        for phase, (_, index) in fullest.items()
    }
