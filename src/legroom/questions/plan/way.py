"""The run that a plan is about to name: its settings, updates and seconds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from legroom.questions.plan.baseline import baseline_of
from legroom.questions.plan.candidates import workers_at
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.forecast import Forecast
from legroom.questions.plan.recommend import learned_items
from legroom.questions.plan.records import PlanQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A run: by which settings, and how long it is."""

    settings: Mapping[str, Any]
    num_steps: int
    seconds: float

    @property
    def size(self) -> int:
        """Samples of an update on one device."""
        return int(self.settings["batch_size"]) * int(self.settings["accumulation_steps"])


def settings_of_run(question: PlanQuestion, found: Forecast, length: int) -> dict[str, Any]:
    """Those of the run that a forecast is of, so many updates long."""
    chosen = found.chosen
    items = {item.name: item.value for item in learned_items(question, found, length) if item.name in question.baseline}
    batch = {"batch_size": chosen.batch_size, "accumulation_steps": chosen.num_passes}
    return {**question.baseline, **items, **batch, "num_devices": chosen.num_devices}


def way_of_run(question: PlanQuestion, found: Forecast | None, likely: int) -> Way | None:
    """As chosen; else as the job's own settings have it, at the likely batch where nothing can be judged.

    None where nobody knows how long that is.
    """
    if found is not None:
        settings = settings_of_run(question, found, found.length)
        return Way(settings=settings, num_steps=found.length, seconds=found.chosen.seconds)
    own, pace = baseline_of(question).candidate, pace_of(question)
    if own is not None:
        return Way(settings=question.baseline, num_steps=math.ceil(own.num_steps), seconds=own.seconds)
    if pace is None or question.own_steps is None:
        return None
    batch = int(question.baseline["batch_size"]) if question.is_judged else likely
    num_steps = max(1, question.own_steps * question.own_size // batch)
    seconds = num_steps * pace.step(batch, workers_at(question, batch))
    return Way(settings={**question.baseline, "batch_size": batch}, num_steps=num_steps, seconds=seconds)
