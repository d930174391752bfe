"""Whether the losses of a variant leave the spread that seeds alone give.

    limit(w) = max_s own(s, w) + MARGIN * (max_s own(s, w) - min_s own(s, w)) + LEAST * |mean_s own(s, w)|
    leaves where mean_s variant(s, w) > limit(w) for a part w of the updates

own(s, w): mean loss by the job's own settings, with seed s, over the w-th quarter of the updates; variant(s, w): the
same with the change, seeds and so batches and first weights alike. A variant that only rounds otherwise has nearly the
same mean, which lies below the largest of the seeds; one that learns worse by more than seeds differ is above it.
Losses below the spread are no harm. Own settings that blow up have no spread to stay within.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 0.25
"""Of the spread over seeds, that a variant may lie above it."""
LEAST = 0.01
"""Of the loss, that it may lie above besides: seeds of a job may all give the same."""
NUM_PARTS = 4
HOPELESS = 1e20
"""A loss above it is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A quarter of the updates."""

    own: tuple[float, float]
    """The least and the most over seeds."""
    limit: float
    variant: float

    @property
    def leaves(self) -> bool:
        """Whether the variant lies above what is allowed; what is no number does."""
        return not self.variant <= self.limit < HOPELESS


def compare(own: Sequence[Sequence[float]], variant: Sequence[Sequence[float]]) -> list[Part]:
    """The parts of the updates, in order; a list of losses for each seed, the same seeds for both.

    >>> own = [[2.0, 1.5, 1.2, 1.0], [2.1, 1.7, 1.4, 1.2], [1.9, 1.4, 1.1, 0.9]]
    >>> [part.leaves for part in compare(own, own)]
    [False, False, False, False]
    >>> worse = [[2.0, 1.5, 1.6, 1.6]] * 3
    >>> [part.leaves for part in compare(own, worse)]
    [False, False, True, True]
    """
    length = max(map(len, [*own, *variant]))
    mine, other = _parts(own, length), _parts(variant, length)
    return [_part(each, statistics.fmean(means)) for each, means in zip(mine, other, strict=True)]


def _part(own: Sequence[float], variant: float) -> Part:
    low, high = min(own), max(own)
    limit = high + MARGIN * (high - low) + LEAST * abs(statistics.fmean(own))
    return Part(own=(low, high), limit=limit, variant=variant)


def _parts(losses: Sequence[Sequence[float]], length: int) -> list[list[float]]:
    """Mean losses of each part, one for each seed; a training that ended early goes on with what ended it."""
    ends = [math.ceil(length * place / NUM_PARTS) for place in range(NUM_PARTS + 1)]
    spans = [(low, high) for low, high in itertools.pairwise(ends) if high > low]
    return [[statistics.fmean(one[low:high] or one[-1:]) for one in losses] for low, high in spans]
