"""What makes the updates of a plan's run faster and leaves what it learns: variants of the step, and variables of the
environment."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from legroom.environments import environment_text, read_environment
from legroom.laws.time_to_target import joined_spread
from legroom.questions.base import Recommendation
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.factors import Pace
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.variants.answer import VariantsAnswer

NEAR = 1.25
"""Batches up to so many times larger or smaller are computed alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a run has besides its batch, rate and length."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.settings or self.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """Those of the environment that pay at a batch."""

    values: Mapping[str, str]
    speedup: float
    range: tuple[float, float]
    because: str

    @property
    def item(self) -> Recommendation:
        """As a plan has them."""
        value = environment_text(self.values)
        because, evidence = self.because, ["step_times"]
        return Recommendation(name="environment", value=value, range=None, because=because, evidence=evidence)


def variants_at(question: PlanQuestion, batch_size: int, num_devices: int = 1) -> VariantsAnswer | None:
    """The variants that pay for a run with that batch on one device; None where none was found to."""
    found = question.variants
    if found is None or not found.chosen or num_devices > 1:
        return None
    return found if _is_near(batch_size, found.batch_size) else None


def variables_at(question: PlanQuestion, batch_size: int, num_devices: int = 1) -> Variables | None:
    """The variables that pay there on one device: by turns at that batch, else by a close look of `speed`."""
    if num_devices > 1:
        return None
    found = question.environment
    if found is not None and _is_near(batch_size, found.batch_size):
        times = f"{found.speedup:.2f} ({found.speedup_range[0]:.2f} to {found.speedup_range[1]:.2f}) times"
        because = f"{times} as fast at {found.batch_size:,}, in turn with the environment as it is"
        paying = Variables(values=found.variables, speedup=found.speedup, range=found.speedup_range, because=because)
        return paying if found.variables else None
    return _seen_closely(question, batch_size)


def _seen_closely(question: PlanQuestion, batch_size: int) -> Variables | None:
    """The variables that gained most near that batch where `speed` timed closely."""
    gains = [
        (point["gain"], tried["environment"], point["batch_size"])
        for tried in (question.speed.settings_tried if question.speed else ())
        for point in tried["points"]
        if point["gain"] is not None and _is_near(batch_size, point["batch_size"])
    ]
    if not gains:
        return None
    gain, text, size = max(gains)
    because = f"{gain:.2f} times the samples/s at {size:,}, in each of several processes"
    return Variables(values=read_environment(text, "speed"), speedup=gain, range=(gain, gain), because=because)


def _is_near(batch_size: int, other: int) -> bool:
    return 1 / NEAR <= batch_size / other <= NEAR


def changes_at(question: PlanQuestion, chosen: Candidate) -> Changes:
    """What they change of a run that was chosen; its workers are among its settings."""
    quick = variants_at(question, chosen.batch_size, chosen.num_devices)
    variables = variables_at(question, chosen.batch_size, chosen.num_devices)
    return Changes(
        settings={item.name: item.value for item in quick.recommendations} if quick else {},
        variables=variables.values if variables else {},
    )


def quickened(
    question: PlanQuestion, chosen: Candidate, pace: Pace, num_workers: int, spread: float
) -> tuple[Candidate, Pace, float]:
    """A way to run, its pace and the doubt about it, with what makes its updates faster.

    What that is faster by is the computing of a pass; loading and the loop stay. What it takes once, as compiling does,
    is shared out to the updates.
    """
    quick = variants_at(question, chosen.batch_size, chosen.num_devices)
    variables = variables_at(question, chosen.batch_size, chosen.num_devices)
    gains = [(quick.speedup, quick.speedup_range)] if quick else []
    gains += [(variables.speedup, variables.range)] if variables else []
    if not gains:
        return chosen, pace, spread
    speedup = math.prod(gain for gain, _ in gains)
    once = quick.start_seconds / chosen.num_steps if quick else 0.0
    pace = replace(pace, seconds=[each / speedup for each in pace.seconds], update=pace.update + once)
    step = pace.step(chosen.batch_size, num_workers, chosen.num_passes)
    for _, (low, high) in gains:
        spread = joined_spread(spread, math.sqrt(high / low))
    return replace(chosen, step_seconds=step), pace, spread
