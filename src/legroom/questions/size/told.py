"""The laws as scripts and figures read them: their numbers with ranges, and lines over parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from legroom.laws.compute import SpeedLaw
from legroom.laws.model_size import SizeLaw
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.loss_law import LossLaw
from legroom.questions.size.records import SizeQuestion

NUM_PLACES = 24
BEYOND = 2.0
"""Times the largest size: how far lines go."""


def tell_laws(steps: SizeLaw, losses: LossLaw | None, pace: SpeedLaw | None) -> dict[str, Any]:
    """What all trials together say, those held out of the scored fit among them."""
    parts = ("a", "k1", "k2", "b")
    told: dict[str, Any] = {"steps": _with_ranges(steps, parts) | {"noise": steps.noise}}
    if losses is not None:
        told["loss"] = _with_ranges(losses, ("floor", "alpha", "beta")) | {"noise": losses.noise}
    if pace is not None:
        told["step_seconds"] = {name: getattr(pace, name) for name in ("floor_seconds", "bend", "sharpness", "doubt")}
    return told


def _with_ranges(law: SizeLaw | LossLaw, parts: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(law, name) for part in parts for name in (part, f"{part}_range")}


def law_lines(
    steps: SizeLaw, losses: LossLaw | None, evidence: Evidence, question: SizeQuestion
) -> list[dict[str, Any]]:
    """Updates and least loss over parameters for each share of the data that was trained on, with their ranges."""
    samples = {trial.fraction: trial.result.num_samples for trial in evidence.of()}
    return [
        {"fraction": fraction, "num_parameters": _sizes(question), **_line(steps, losses, num_samples, question)}
        for fraction, num_samples in sorted(samples.items())
    ]


def _sizes(question: SizeQuestion) -> list[float]:
    sizes: list[float] = np.geomspace(
        min(question.num_parameters), BEYOND * max(question.num_parameters), NUM_PLACES
    ).tolist()
    return sizes


def _line(steps: SizeLaw, losses: LossLaw | None, num_samples: int, question: SizeQuestion) -> dict[str, Any]:
    places = [(size, num_samples) for size in _sizes(question)]
    spans = [steps.steps_range(*place) for place in places]
    line = {"steps": [steps.steps(*place) for place in places], **_ends("", spans)}
    if losses is not None:
        line["loss"] = [losses.loss(*place) for place in places]
        line |= _ends("loss_", [losses.loss_range(*place) for place in places])
    return line


def pace_line(pace: SpeedLaw | None, question: SizeQuestion) -> dict[str, Any]:
    """Seconds a step over parameters, with their range."""
    if pace is None:
        return {}
    spans = [pace.interval(size) for size in _sizes(question)]
    seconds = [pace.seconds(size) for size in _sizes(question)]
    return {"num_parameters": _sizes(question), "step_seconds": seconds, **_ends("", spans)}


def _ends(name: str, spans: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    return {f"{name}low": [low for low, _ in spans], f"{name}high": [high for _, high in spans]}
