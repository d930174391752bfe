"""What twice the model or twice the data would buy, whether it fits, and how well it fills the device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legroom.host.cards import smallest_card, usable_bytes
from legroom.laws.compute import SpeedLaw, fit_speed
from legroom.laws.model_size import SizeLaw, quantiles
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.records import SizeQuestion

Span = tuple[float, float]
Peaks = Sequence[tuple[int, int]]
"""(parameters, bytes)."""

FAR = 64.0
"""Times the largest model: where the pace of the device is at its best by the law."""
LARGEST_CARD = "b200-180gb"
GRADIENT_BYTES, BACKWARD_SHARE = 4, 2 / 3
"""Of a parameter, and of a step: what devices send each other, and the time behind which that hides."""

LEAST_BYTES = 2.0 * GRADIENT_BYTES
"""Of a parameter and its gradient: a smaller slope of memory is what else the process did meanwhile."""
NO_SECONDS: dict[str, Any] = {"step_seconds_ratio": None, "seconds_ratio": None, "speedup_needed": None}
NO_LOSS: dict[str, Any] = {"loss_ratio": None, "loss": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """Through all trials, held out or not."""

    steps: SizeLaw
    losses: LossLaw | None
    """None where there is none, or where it did badly at what was held out."""
    pace: SpeedLaw | None
    varied: tuple[bool, bool]
    """Whether two sizes settled, and two amounts of data."""


def parameters_of(question: SizeQuestion) -> dict[int, int]:
    """By value."""
    return dict(zip(question.values, question.num_parameters, strict=True))


def pace_law(evidence: Evidence, question: SizeQuestion) -> SpeedLaw | None:
    """Seconds a step by parameters, as the law of steps by batch size has it: a floor that bends into a proportion.

    Its doubt is how far it misses the largest size when that is left out.
    """
    sizes = parameters_of(question)
    points = sorted((sizes[value], seconds) for value, seconds in evidence.step_seconds().items() if seconds > 0)
    if len(points) < 2:
        return None
    law = fit_speed(points)
    if len(points) == 2:
        return law
    largest, seconds = points[-1]
    missed = abs(math.log(fit_speed(points[:-1]).seconds(largest) / seconds))
    return replace(law, doubt=max(law.doubt, math.expm1(missed)))


def next_doubling(laws: Laws, place: tuple[float, float], *, of_data: bool) -> dict[str, Any]:
    """Updates, loss and time at twice the model or the data, over those at the place (parameters, samples).

    Ratios are None where only one size, or one amount of data, came to its minimum.
    """
    there = (place[0], 2 * place[1]) if of_data else (2 * place[0], place[1])
    sizes = {"num_parameters": round(there[0]), "num_samples": round(there[1])}
    if not laws.varied[of_data]:
        return {**sizes, "steps_ratio": None, **NO_SECONDS, **NO_LOSS}
    ratios = np.exp(laws.steps.draws.log_steps(*there) - laws.steps.draws.log_steps(*place))
    steps, span = float(np.median(ratios)), quantiles(ratios)
    return {
        **sizes,
        "steps_ratio": steps,
        "steps_ratio_range": span,
        **_next_seconds(laws.pace, place[0], there[0], steps, span),
        **_next_loss(laws.losses, place, there),
    }


def _next_seconds(pace: SpeedLaw | None, size: float, doubled: float, steps: float, span: Span) -> dict[str, Any]:
    """Of a step, of a training, and how much faster steps and link must become; of twice the data a step stays."""
    if pace is None:
        return NO_SECONDS
    slower = pace.seconds(doubled) / pace.seconds(size)
    now, then = pace.interval(size), pace.interval(doubled)
    low, high = (then[0] / now[1], then[1] / now[0]) if doubled > size else (1.0, 1.0)
    whole = span[0] * low, span[1] * high
    found = {"step_seconds_ratio": slower, "step_seconds_ratio_range": (low, high)}
    found |= {"seconds_ratio": steps * slower, "seconds_ratio_range": whole}
    if doubled == size:
        return {**found, "speedup_needed": None}
    needed = {"speedup_needed": max(1.0, steps * slower), "speedup_needed_range": tuple(max(1.0, one) for one in whole)}
    return {**found, **needed, **_next_link(doubled, pace.seconds(doubled), slower)}


def _next_link(num_parameters: float, step_seconds: float, slower: float) -> dict[str, Any]:
    """The link on which devices that share the batch hide the doubled model's gradients behind its backward pass.

    In a ring each sends nearly twice the gradients (`legroom.laws.communication`), and twice the model has twice as
    many while its step takes only so many times as long.
    """
    return {
        "link_bytes_per_second": 2 * GRADIENT_BYTES * num_parameters / (BACKWARD_SHARE * step_seconds),
        "link_speedup_needed": max(1.0, 2 / slower),
    }


def _next_loss(losses: LossLaw | None, place: tuple[float, float], there: tuple[float, float]) -> dict[str, Any]:
    if losses is None:
        return NO_LOSS
    return {
        "loss_ratio": losses.loss(*there) / losses.loss(*place),
        "loss_ratio_range": losses.ratio_range(place, there),
        "loss": losses.loss(*there),
        "loss_range": losses.loss_range(*there),
    }


def memory_by_size(evidence: Evidence, question: SizeQuestion) -> dict[str, Any]:
    """A line through the peaks, what fits this device, and the card that the next doubling needs.

    Ranges are those of lines through all points but one; of two points there is none. Bytes per parameter are None
    where the peaks do not show them.
    """
    sizes, peaks = parameters_of(question), evidence.peak_bytes()
    points = [(sizes[value], peak) for value, peak in peaks.items() if peak > 0]
    if len(points) < 2:
        return {}
    doubled = 2 * max(size for size, _ in points)
    lines = [_line(some) for some in (points, *_all_but_one(points))]
    (slope, fixed), slopes = lines[0], [slope for slope, _ in lines]
    needs = [fixed + slope * doubled for slope, fixed in lines]
    needed, span = needs[0], (min(needs), max(needs))
    is_seen, has_range = slope > LEAST_BYTES, len(lines) > 1
    return {
        "bytes_per_parameter": slope if is_seen else None,
        "bytes_per_parameter_range": (min(slopes), max(slopes)) if has_range else None,
        "fixed_bytes": fixed if is_seen else None,
        "peak_bytes": dict(sorted(peaks.items())),
        "memory_bytes": question.memory_bytes,
        "next_bytes": needed,
        "next_bytes_range": span if has_range else None,
        "next_fits": _fits(span, question.memory_bytes),
        "most_parameters": _most(slope, fixed, question.memory_bytes) if is_seen else None,
        **_cards(needed, question),
    }


def _line(points: Peaks) -> tuple[float, float]:
    """Slope and level through the middle of the points; it never rises by less than weights and gradients do.

    Where the sizes are so small that other memory of the process hides what they take, the line through their peaks
    may even fall.
    """
    sizes, peaks = np.array(points, float).T
    slope = max(float(np.polyfit(sizes, peaks, 1)[0]), LEAST_BYTES)
    return slope, float(peaks.mean() - slope * sizes.mean())


def _all_but_one(points: Peaks) -> list[Peaks]:
    """The points without each of them, if two are left."""
    return [[each for each in points if each != left] for left in points] if len(points) > 2 else []


def _fits(needs: Span, memory_bytes: int) -> bool | None:
    """None where nobody knows."""
    low, high = needs
    return None if not memory_bytes or low <= memory_bytes < high else high <= memory_bytes


def _most(slope: float, fixed: float, memory_bytes: int) -> float | None:
    """Parameters that fit; None where nobody knows."""
    return max(0.0, (memory_bytes - fixed) / slope) if memory_bytes else None


def _cards(needed: float, question: SizeQuestion) -> dict[str, Any]:
    """The smallest card for the next doubling, or how many of the largest that share its weights would hold it."""
    if question.device == "cpu":
        return {"next_card": None, "next_num_devices": None}
    card = smallest_card(needed)
    return {"next_card": card or LARGEST_CARD, "next_num_devices": math.ceil(needed / usable_bytes(LARGEST_CARD))}


def fill_by_size(evidence: Evidence, question: SizeQuestion, pace: SpeedLaw | None) -> list[dict[str, Any]]:
    """For each size, the parameters updated a second as a share of the best by the law: what its kernels fill."""
    sizes, paces = parameters_of(question), evidence.step_seconds()
    if pace is None:
        return []
    far = FAR * max(sizes.values())
    best = max(far / pace.seconds(far), *(sizes[value] / seconds for value, seconds in paces.items()))
    return [
        {
            "value": value,
            "num_parameters": sizes[value],
            "step_seconds": seconds,
            "share": sizes[value] / seconds / best,
        }
        for value, seconds in paces.items()
    ]
