"""What `variants` gives the plan's run: its settings, and the seconds that its updates then take."""

import math
from dataclasses import replace
from typing import Any

from legroom.laws.time_to_target import joined_spread
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.factors import Pace
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.variants.answer import VariantsAnswer

NEAR = 1.25
"""Batches up to so many times larger or smaller are computed alike."""


def variants_at(question: PlanQuestion, batch_size: int, num_devices: int = 1) -> VariantsAnswer | None:
    """The variants that pay for a run with that batch on one device; None where none was found to."""
    found = question.variants
    if found is None or not found.chosen or num_devices > 1:
        return None
    return found if 1 / NEAR <= batch_size / found.batch_size <= NEAR else None


def changes_at(question: PlanQuestion, chosen: Candidate) -> dict[str, Any]:
    """What they change of the settings."""
    found = variants_at(question, chosen.batch_size, chosen.num_devices)
    return {item.name: item.value for item in found.recommendations} if found else {}


def quickened(
    question: PlanQuestion, chosen: Candidate, pace: Pace, num_workers: int, spread: float
) -> tuple[Candidate, Pace, float]:
    """A way to run, its pace and the doubt about it, with the variants that pay there.

    What they are faster by is the computing of a pass; loading and the loop stay. What they take once, as compiling
    does, is shared out to the updates.
    """
    found = variants_at(question, chosen.batch_size, chosen.num_devices)
    if found is None:
        return chosen, pace, spread
    low, high = found.speedup_range
    once = found.start_seconds / chosen.num_steps
    pace = replace(pace, seconds=[each / found.speedup for each in pace.seconds], update=pace.update + once)
    step = pace.step(chosen.batch_size, num_workers, chosen.num_passes)
    return replace(chosen, step_seconds=step), pace, joined_spread(spread, math.sqrt(high / low))


def own_run_seconds(question: PlanQuestion, own: Candidate) -> float:
    """Of the job's own run to the target, with the variants that pay for it."""
    found = variants_at(question, own.batch_size, own.num_devices)
    if found is None or found.own_step_seconds is None:
        return own.seconds
    gained = min(found.own_step_seconds, own.step_seconds) * (1 - 1 / found.speedup)
    return replace(own, step_seconds=own.step_seconds - gained).seconds + found.start_seconds
