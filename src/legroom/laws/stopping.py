"""When a run has gone on long enough: pure functions of the evaluations so far."""

from collections.abc import Sequence


def num_without_gain(values: Sequence[float], *, goal: str, tolerance: float = 0.0) -> int:
    """Evaluations since the last that gained on the best before it by more than `tolerance` of that best.

    >>> num_without_gain([3.0, 2.0, 2.1, 2.2], goal="min")
    2
    >>> num_without_gain([1.0, 0.999, 0.998], goal="min", tolerance=0.01)
    2
    """
    sign = 1.0 if goal == "max" else -1.0
    best, waited = float("-inf"), 0
    for value in values:
        if sign * value > best + tolerance * abs(best if best > float("-inf") else 0.0):
            best, waited = sign * value, 0
        else:
            waited += 1
    return waited


def first_near_minimum(losses: Sequence[float], *, within: float = 0.01) -> int | None:
    """Position of the first loss within that share of the smallest: where Hestness et al. call a model trained.

    >>> first_near_minimum([4.0, 2.01, 2.0, 2.3])
    1
    """
    if not losses:
        return None
    limit = min(losses) + within * abs(min(losses))
    return next(position for position, loss in enumerate(losses) if loss <= limit)


def reaches(value: float | None, target: float, *, goal: str) -> bool:
    """Whether the value is as good as the target.

    >>> reaches(0.98, 0.97, goal="max"), reaches(120.5, 120.0, goal="min"), reaches(None, 1.0, goal="min")
    (True, False, False)
    """
    return value is not None and (value >= target if goal == "max" else value <= target)
