"""Every setting that a plan changes, with its range, reason and evidence."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from legroom.job import Settings
from legroom.laws.memory import split_batch
from legroom.questions.base import Recommendation
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.plan.baseline import baseline_of
from legroom.questions.plan.batch import limit_of
from legroom.questions.plan.choice import knows_energy
from legroom.questions.plan.device_words import recommend_devices
from legroom.questions.plan.forecast import Forecast, as_good
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.rate.answer import RateAnswer
from legroom.reports.numbers import quantity

LEARNED = ["grown"]


def by_forecast(question: PlanQuestion, memory: MemoryAnswer, found: Forecast) -> list[Recommendation]:
    """The batch that costs least, the rate measured there or moved there, and the run's length."""
    return [
        *_batch(question, memory, found),
        *recommend_devices(question, found),
        *learned_items(question, found, found.length),
    ]


def learned_items(question: PlanQuestion, found: Forecast, num_steps: int) -> list[Recommendation]:
    """Rate, schedule and length of a run of so many updates, and its workers."""
    chosen, near = found.chosen, found.learned.near(found.chosen.size)
    rate, moved = found.learned.rate(chosen.size), near.batch_size != chosen.size
    named = rate * chosen.rate_share
    span = (math.ceil(chosen.num_steps / found.steps_spread), math.ceil(chosen.num_steps * found.steps_spread))
    per_epoch = question.num_samples or chosen.size * num_steps
    epochs = max(1, math.ceil(num_steps * chosen.size / per_epoch))
    low, high = (end * rate / near.learning_rate for end in near.range)
    because = f"measured at batches of {near.batch_size:,} and moved by the critical batch size; " if moved else ""
    if chosen.rate_share != 1:
        because += f"{chosen.rate_share:g} times the rate that was found, with which fresh seeds lay far apart; "
    return [
        _item(
            "learning_rate",
            float(f"{named:.3g}"),
            (min(low, named), high),
            because + near.recommendations[0].because,
            LEARNED,
        ),
        *_schedule(near, num_steps, chosen.size),
        _item("num_steps", num_steps, span, _length(question, near, found), LEARNED),
        _item("num_epochs", epochs, None, f"{num_steps:,} updates begin so many passes over the data", LEARNED),
        *workers(question.loading, chosen.batch_size),
    ]


def _batch(question: PlanQuestion, memory: MemoryAnswer, found: Forecast) -> list[Recommendation]:
    chosen, limit = found.chosen, limit_of(memory)
    evidence = ["step_times", *LEARNED, *memory.recommendations[0].evidence]
    step = quantity(chosen.step_seconds, "seconds")
    energy = "with the least energy" if knows_energy(question) else "cheapest, by hours of the device"
    least = {"fastest": "soonest", "cheapest": "cheapest"}.get(question.goal, energy)
    because = f"{math.ceil(chosen.num_steps):,} updates of {step} get there {least}"
    if question.batch_size is not None:
        because = f"as asked; {because}"
    baseline = found.baseline.candidate
    if baseline is not None and question.batch_size is None:
        own = quantity(baseline.step_seconds, "seconds")
        because += f"; {baseline.batch_size:,} takes {math.ceil(baseline.num_steps):,} of {own}"
    fits = chosen.batch_size <= limit
    share = chosen.size // chosen.num_devices
    size, passes = (chosen.batch_size, chosen.num_passes) if fits else split_batch(share, limit)
    joined = "one pass an update" if passes == 1 else f"{share:,} at once do not fit; {passes} passes do"
    if chosen.num_devices > 1:
        because = f"on each of {chosen.num_devices:,} devices, so that an update joins {chosen.size:,}; {because}"
    return [
        _item("batch_size", size, as_good(question, found) if passes == 1 else (1, size), because, evidence),
        _item("accumulation_steps", passes, None, joined, evidence),
    ]


def _schedule(near: RateAnswer, num_steps: int, size: int) -> list[Recommendation]:
    """The trials' own, its warm-up over as many samples at another batch, and no longer than cooling down leaves."""
    cooldown = round(num_steps * near.cooldown_steps / near.num_steps)
    warmup = min(round(near.warmup_steps * near.batch_size / size), num_steps - cooldown)
    warm = "the rate climbs over them, as in every trial" if near.warmup_steps else "the trials did without"
    return [
        _item("warmup_steps", warmup, None, warm, LEARNED),
        _item("schedule", near.schedule, None, f"the last {cooldown:,} updates cool down, as in every trial", LEARNED),
        _item("cooldown_steps", cooldown, None, "part of the schedule", LEARNED),
    ]


def _length(question: PlanQuestion, near: RateAnswer, found: Forecast) -> str:
    words = f"{near.target['name']} {near.target['value']:.4g}"
    own = found.baseline.candidate
    before = f"; the job's own settings need {math.ceil(own.num_steps):,}" if own else ""
    met = f"reached after {math.ceil(found.chosen.num_steps):,} where it was tried out" if found.is_tried else ""
    return f"to {words}, {met or 'by the slowest of the seeds'}{before}"


def nearest(question: PlanQuestion) -> RateAnswer | None:
    """What came nearest to a target that somebody named and nothing reached, nearer than the job's own settings."""
    target = question.target
    if target is None or target["from"] != "given" or any(one.reached for one in question.rates):
        return None
    if baseline_of(question).source == "measured":
        return None
    sign = 1.0 if _rises(question) else -1.0
    own = max((sign * run.value for run in question.runs if run.value is not None), default=-math.inf)
    found = [(sign * one.best_value, one) for one in question.rates if one.best_value is not None]
    value, near = max(found, key=lambda one: one[0], default=(own, None))
    return near if value > own else None


def _rises(question: PlanQuestion) -> bool:
    """Whether more is better: of scores that have not reached the target, those below it."""
    target, first = question.rates[0].target, question.rates[0]
    return target["name"] == "score" and (first.best_value is None or first.best_value < target["value"])


def by_nearest(question: PlanQuestion, near: RateAnswer) -> list[Recommendation]:
    """The trial that came nearest to a target that none reached."""
    than = "nearer than the job's own run" if question.runs else "of the job's own settings no run was made"
    because = f"no trial reached {near.target['name']} {near.target['value']:.4g}; this one came nearest, {than}"
    per_epoch = question.num_samples or near.batch_size * near.num_steps
    epochs = max(1, math.ceil(near.num_steps * near.batch_size / per_epoch))
    return [
        _item("batch_size", near.batch_size, None, because, ["step_times", *LEARNED]),
        _item("accumulation_steps", 1, None, "one pass an update", LEARNED),
        _item("learning_rate", float(f"{near.learning_rate:.3g}"), near.range, because, LEARNED),
        *_schedule(near, near.num_steps, near.batch_size),
        _item("num_epochs", epochs, None, "as long as the longest trial", LEARNED),
        *workers(question.loading, near.batch_size),
    ]


def own_batch(baseline: Settings, memory: MemoryAnswer) -> list[Recommendation]:
    """The job's own batch, where nothing was surely better."""
    evidence, because = memory.recommendations[0].evidence, "the job's own; no other was surely better"
    return [_item("batch_size", baseline.batch_size, (1, limit_of(memory)), because, evidence)]


def workers(answers: Sequence[LoadingAnswer], batch_size: int, *, exactly: bool = False) -> list[Recommendation]:
    """What `loading` found at this batch, or else, unless it must be this one, at the batch it was asked for last."""
    here = [one for one in answers if one.batch_size == batch_size]
    if not here and (exactly or not answers):
        return []
    answer = (here or answers)[0]
    where = "" if here else f", measured at a batch of {answer.batch_size:,}"
    because = {item.name: item.because + where for item in answer.recommendations}
    found = _item("num_workers", answer.num_workers, answer.range, because["num_workers"], ["loader_rates"])
    ahead = because.get("prefetch_factor", "without workers it has no effect")
    return [
        found,
        replace(found, name="prefetch_factor", value=answer.prefetch_factor, range=None, because=ahead),
    ]


def _item(name: str, value: Any, span: tuple[Any, Any] | None, because: str, evidence: Sequence[str]) -> Recommendation:
    return Recommendation(name=name, value=value, range=span, because=because, evidence=list(evidence))
