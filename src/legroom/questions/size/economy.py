"""What twice the model or twice the data would buy, whether it fits, and how well it fills the device."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legroom.host.cards import smallest_card, usable_bytes
from legroom.laws.compute import SpeedLaw, fit_speed
from legroom.laws.model_size import SizeLaw, quantiles
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.records import SizeQuestion

FAR = 64.0
"""Times the largest model: where the pace of the device is at its best by the law."""
LARGEST_CARD = "b200-180gb"


def parameters_of(question: SizeQuestion) -> dict[int, int]:
    """By value."""
    return dict(zip(question.values, question.num_parameters, strict=True))


def pace_law(evidence: Evidence, question: SizeQuestion) -> SpeedLaw | None:
    """Seconds a step by parameters, as the law of steps by batch size has it: a floor that bends into a proportion."""
    sizes = parameters_of(question)
    points = [(sizes[value], seconds) for value, seconds in evidence.step_seconds().items() if seconds > 0]
    return fit_speed(points) if len(points) > 1 else None


def next_doubling(
    law: SizeLaw, losses: LossLaw | None, pace: SpeedLaw | None, place: tuple[float, float], *, of_data: bool
) -> dict[str, Any]:
    """Updates, loss and time at twice the model or the data, over those at the place (parameters, samples)."""
    there = (place[0], 2 * place[1]) if of_data else (2 * place[0], place[1])
    ratios = np.exp(law.draws.log_steps(*there) - law.draws.log_steps(*place))
    low, high = quantiles(ratios)
    slower = pace.seconds(there[0]) / pace.seconds(place[0]) if pace else None
    steps = float(np.median(ratios))
    return {
        "num_parameters": round(there[0]),
        "num_samples": round(there[1]),
        "steps_ratio": steps,
        "steps_ratio_range": (low, high),
        "step_seconds_ratio": slower,
        "seconds_ratio": None if slower is None else steps * slower,
        "speedup_needed": None if slower is None or of_data else max(1.0, steps * slower),
        "loss_ratio": None if losses is None else losses.loss(*there) / losses.loss(*place),
        "loss": None if losses is None else losses.loss(*there),
    }


def memory_by_size(evidence: Evidence, question: SizeQuestion) -> dict[str, Any]:
    """A line through the peaks, what fits this device, and the card that the next doubling needs."""
    sizes, peaks = parameters_of(question), evidence.peak_bytes()
    points = [(sizes[value], peak) for value, peak in peaks.items() if peak > 0]
    if len(points) < 2:
        return {}
    line = np.polyfit([size for size, _ in points], [peak for _, peak in points], 1)
    slope, fixed = max(float(line[0]), 0.0), float(line[1])
    needed = fixed + slope * 2 * max(sizes.values())
    return {
        "bytes_per_parameter": slope,
        "fixed_bytes": fixed,
        "peak_bytes": dict(sorted(peaks.items())),
        "memory_bytes": question.memory_bytes,
        "next_bytes": needed,
        "next_fits": needed <= question.memory_bytes if question.memory_bytes else None,
        "most_parameters": _most(slope, fixed, question.memory_bytes),
        **_cards(needed, question),
    }


def _most(slope: float, fixed: float, memory_bytes: int) -> float | None:
    """Parameters that fit; None where nobody knows, or memory does not grow with them."""
    return max(0.0, (memory_bytes - fixed) / slope) if memory_bytes and slope > 0 else None


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


def value_at(num_parameters: float, sizes: Mapping[int, int]) -> float | None:
    """The width or depth with so many parameters, on a line through the logarithms; None far outside.

    >>> round(value_at(4e4, {10: 10_000, 100: 1_000_000}))
    20
    """
    ordered = sorted((math.log(size), math.log(value)) for value, size in sizes.items())
    if len(ordered) < 2 or not 0 < num_parameters < math.inf:
        return None
    slope = (ordered[-1][1] - ordered[0][1]) / (ordered[-1][0] - ordered[0][0])
    wanted = math.log(num_parameters)
    places, values = [each[0] for each in ordered], [each[1] for each in ordered]
    inside = float(np.interp(wanted, places, values))
    beyond = slope * (wanted - min(max(wanted, places[0]), places[-1]))
    return math.exp(inside + beyond)


def law_lines(law: SizeLaw, evidence: Evidence, question: SizeQuestion) -> list[dict[str, Any]]:
    """The law over parameters for each share of the data that was trained on, with its range."""
    samples = {trial.fraction: trial.result.num_samples for trial in evidence.of()}
    sizes: Sequence[float] = np.geomspace(min(question.num_parameters), 2 * max(question.num_parameters), 24).tolist()
    lines = []
    for fraction, num_samples in sorted(samples.items()):
        ranges = [law.steps_range(size, num_samples) for size in sizes]
        lines.append(
            {
                "fraction": fraction,
                "num_parameters": sizes,
                "steps": [law.steps(size, num_samples) for size in sizes],
                "low": [low for low, _ in ranges],
                "high": [high for _, high in ranges],
            }
        )
    return lines
