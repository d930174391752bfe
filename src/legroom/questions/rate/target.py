"""The target where nobody named one: what the job's own settings reach, run to the end or forecast."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from legroom.errors import NothingMeasured, UsageError
from legroom.job import OWN_SCHEDULE
from legroom.questions.rate.chance import refuse_own_chance
from legroom.questions.rate.curves import PowerCurve, fit_curves
from legroom.questions.rate.evidence import value_of
from legroom.questions.rate.growing import COOLDOWN, LEAST_STEPS, start_request, warmup_steps
from legroom.questions.rate.records import RateQuestion, RateRamp, RunTrial, Trial, update_size
from legroom.questions.rate.search import FIRST_SHARE, NUM_RATES, SETTLED
from legroom.requests import JobDescription
from legroom.session import Session
from legroom.training.records import Evaluated
from legroom.training.schedule_text import make_schedule

SHARE, SHARE_ALL = 0.25, 0.5
"""Of the budget, that a run by the job's own settings may take, and all of them together: a second seed at least."""
NUM_EVALUATIONS = 50
LEAST_LOOKS = 4
"""Evaluations without which a run's beginning is no ground for a forecast."""
LAST_EVALUATIONS = 9
"""Whose median is what a run came to: a single one may be lucky, and a search would chase that luck."""
NUM_RUNS = 3
"""Seeds that all come to the target, where the share of the budget lasts for them."""
FALLS_TO = 0.1
"""Of its peak: a schedule that ends lower makes the end of a run better than its beginning shows."""
RAMP_STEPS, LEAST_RAMP = 0.25, 40
"""Of the job's own updates, those of a ramp over all rates, and how few they may be."""
COOLED_AT = (0.2, 0.4, 0.7, 1.0)
"""Of the longest that time lasts for: lengths of runs like the job's own that are cooled down, to show such an end."""


def find_target(
    session: Session, question: RateQuestion, description: JobDescription, *, is_named: bool
) -> RateQuestion:
    """The question with its target, where nobody named one, and the length of the job's own run."""
    session.progress("ramp of the rate", 0.02)
    # A rate that is carried to another batch size is carried there without a run: the known one tells an epoch too.
    question = replace(question, ramp_steps=_ramp_steps(question, description))
    here = question.at_known() if question.known else question
    ramp = session.ask(here.upper_ramp(0))
    per_epoch = here.update_size * _steps_per_epoch(ramp.steps_per_epoch, here, description)
    num_samples = int(description.baseline["num_epochs"]) * per_epoch
    own_steps = max(1, round(num_samples / question.update_size))
    question = replace(question, own_steps=own_steps, most_warmup=_affordable_warmup(ramp, question))
    if is_named:
        return question
    limit, most = question.own_seconds, question.own_seconds
    if limit is None or most is None:
        # What the rules are compared with is not more runs by the job's own settings: those leave them the rest.
        share_all = SHARE if question.compares else SHARE_ALL
        limit, most = SHARE * question.budget_seconds, share_all * question.budget_seconds
    steps = max(1, round(num_samples / update_size(description.baseline)))
    if not _falls(description, steps) and LEAST_LOOKS * _every(steps) * _pace(ramp) > limit:
        limit = most
    runs: list[Trial] = []
    spent = 0.0
    while len(runs) < NUM_RUNS and (not runs or spent + spent / len(runs) <= most):
        session.progress("a run by the job's own settings", 0.05)
        run = session.ask(_own_run(question, description, steps, len(runs), limit))
        spent += run.seconds
        if run.stopped_because == "budget":
            break
        runs.append(run)
    if runs:
        found = _measured(runs, question)
    else:
        if run.evaluations:
            _end(run, question)  # which refuses values that are no numbers, before more is trained for them
        points = _cooled(session, question, description, run, steps, most - spent) or _begun(run, question)
        found = _forecast(points, question, steps)
    start = session.ask(start_request(here))
    losses = [seen.loss for each in runs or [run] for seen in each.evaluations if seen.loss is not None]
    refuse_own_chance(found, start, [loss for loss in losses if math.isfinite(loss)], description)
    return found


def _ramp_steps(question: RateQuestion, description: JobDescription) -> int:
    """Updates of a ramp over all rates: of a job of few updates a part of them, where it is known how many it has."""
    if question.method == "range" or description.own_loader or description.num_samples is None:
        return question.ramp_steps
    own = int(description.baseline["num_epochs"]) * description.num_samples / question.update_size
    return round(min(question.ramp_steps, max(LEAST_RAMP, RAMP_STEPS * own)))


def _affordable_warmup(ramp: RateRamp, question: RateQuestion) -> int:
    """Updates of a warm-up after which the first look at the rates still ends within its share of the budget."""
    each = SETTLED * (1 + COOLDOWN) * _pace(ramp)
    return int(FIRST_SHARE * question.budget_seconds / (NUM_RATES * each)) if each else question.own_steps


def _pace(ramp: RateRamp) -> float:
    """Seconds of an update in a ramp."""
    return ramp.seconds / max(1, len(ramp.rates))


def _every(num_steps: int) -> int:
    """Updates between evaluations of a run by the job's own settings."""
    return max(1, num_steps // NUM_EVALUATIONS)


def _measured(runs: Sequence[Trial], question: RateQuestion) -> RateQuestion:
    """The question with what all runs came to; of two, less half of what lies between them, for the third that may.

    The middle of the seeds is what one fresh seed in two misses; their own difference is no gain or loss of settings.
    """
    ends = [_end(run, question) for run in runs]
    worst = max(question.signed(end) for end in ends) + (0.0 if len(ends) > 2 else (max(ends) - min(ends)) / 2)
    found = replace(question, target=question.signed(worst), target_from="measured")
    found = replace(found, target_range=(min(ends), max(ends)))
    return replace(found, baseline_seconds=statistics.median(_seconds_to(run, found) for run in runs))


def _seconds_to(run: Trial, question: RateQuestion) -> float:
    """Training until the target was first met; all of the run where it was not."""
    met = (found.step for found in run.evaluations if _meets(_value(found, question), question))
    samples = run.num_samples * next(met, run.num_steps) / max(1, run.num_steps)
    return samples / run.samples_per_second if run.samples_per_second else run.seconds


def _meets(value: float | None, question: RateQuestion) -> bool:
    return value is not None and question.signed(value) <= question.wanted


def _end(run: Trial, question: RateQuestion) -> float:
    """What a run came to, its last evaluations together."""
    values = [value for found in run.evaluations if (value := _value(found, question)) is not None]
    if values:
        return statistics.median_low(values[-LAST_EVALUATIONS:])
    if run.stopped_because == "diverged":
        why = "The job's own settings diverged, so there is no target in them"
    else:
        why = f"The job's own settings gave no {question.target_name} that is a number"
    raise NothingMeasured(f"{why}. Name one, as in --target loss=0.1")


def _steps_per_epoch(known: int | None, question: RateQuestion, description: JobDescription) -> int:
    if known is not None:  # counted on the part of the data that the ramp saw
        return round(known / question.fraction)
    if description.num_samples is None:
        raise UsageError("The length of an epoch is unknown. Give the Job num_samples")
    return max(1, description.num_samples // question.update_size)


def _own_run(
    question: RateQuestion, description: JobDescription, steps: int, more: int, max_seconds: float
) -> RunTrial:
    settings: dict[str, Any] = {**description.baseline, "seed": question.seed + more}
    return RunTrial(device=question.device, settings=settings, evaluate_steps=_every(steps), max_seconds=max_seconds)


def _value(found: Evaluated, question: RateQuestion) -> float | None:
    value = found.loss if question.target_name == "loss" else found.score
    return value if value is not None and math.isfinite(value) else None


def least_value(values: Sequence[float], question: RateQuestion) -> float:
    """What no value of the kind can pass, with less as better: an accuracy's 1, a loss's 0; none where unknown."""
    if question.goal == "max":
        return -1.0 if all(-1 <= value <= 0 for value in values) else -math.inf
    return 0.0 if all(value >= 0 for value in values) else -math.inf


def _begun(run: Trial, question: RateQuestion) -> list[tuple[int, float]]:
    """Updates of the run that was broken off, and what it had come to."""
    return [(seen.step, value) for seen in run.evaluations if (value := _value(seen, question)) is not None]


def _cooled(
    session: Session, question: RateQuestion, description: JobDescription, run: Trial, num_steps: int, seconds: float
) -> list[tuple[int, float]]:
    """What short runs at the job's own rate come to that are cooled down: its schedule falls, which its beginning does
    not show. None where it does not fall, or time lasts for none."""
    own = replace(question, settings={**description.baseline, "seed": question.seed})
    longest = round(_affordable(run, seconds))
    if not _falls(description, num_steps) or COOLED_AT[0] * longest < LEAST_STEPS:
        return []
    points: list[tuple[int, float]] = []
    for share in COOLED_AT:
        session.progress("what the end of a run by the job's own settings gives", 0.08)
        rate, to_step = float(own.settings["learning_rate"]), round(share * longest)
        warmup = min(warmup_steps(own), to_step // 2)
        grown = session.ask(own.trunk(rate, to_step, seed=own.seed, warmup_steps=warmup, cooldown=COOLDOWN))
        value = value_of(grown, own)
        if math.isfinite(value):
            points.append((grown.num_steps, own.signed(value)))
    return points if len(points) >= LEAST_LOOKS else []


def _affordable(run: Trial, seconds: float) -> float:
    """Updates of the longest of such runs, at the pace of the one that was broken off."""
    return seconds * run.num_steps / run.seconds / (1 + COOLDOWN * sum(COOLED_AT)) if run.seconds else 0.0


def _falls(description: JobDescription, num_steps: int) -> bool:
    """Whether the job's own schedule ends far below its peak; one of the job's own making nobody knows beforehand."""
    text = str(description.baseline["schedule"])
    if text == OWN_SCHEDULE:
        return False
    each = max(1.0, num_steps / int(description.baseline["num_epochs"]))
    warmup = int(description.baseline["warmup_steps"])
    rate = make_schedule(text, num_steps=num_steps, steps_per_epoch=each, warmup_steps=warmup)
    return rate(num_steps - 1) < FALLS_TO


def _forecast(points: Sequence[tuple[int, float]], question: RateQuestion, num_steps: int) -> RateQuestion:
    """The question with what the run would come to, by curves through runs of fewer updates."""
    if not points:
        raise NothingMeasured(
            "The job's own run is too long for the budget, and its beginning too short for a forecast. "
            "Name a --target, or raise --budget"
        )
    values = [question.signed(value) for _, value in points]
    curves = fit_curves([step for step, _ in points], values, least=least_value(values, question))
    if not curves or len(points) < LEAST_LOOKS:
        return replace(question, target=points[-1][1], target_from="begun")
    # The least of them: a target that the job's own settings do not reach would flatter whatever does.
    worst = max(curve.value(num_steps) for curve in curves)
    low, high = _span(curves, points[-1][0], values, question, num_steps)
    span = sorted((question.signed(low), question.signed(high)))
    return replace(question, target=question.signed(worst), target_from="forecast", target_range=(span[0], span[-1]))


def _span(
    curves: Sequence[PowerCurve], seen: int, values: Sequence[float], question: RateQuestion, num_steps: int
) -> tuple[float, float]:
    """Between which the end lies, less as better: the curves', widened by the share of the run that nobody saw.

    Both ways: to what was seen last, and to what no value can pass; where nobody knows that, by as much as is gained.
    """
    ends, unseen = [curve.value(num_steps) for curve in curves], max(0.0, 1 - seen / num_steps)
    low, high, least = min(ends), max(ends), least_value(values, question)
    best = least if math.isfinite(least) else 2 * low - max(values[-1], low)
    return low - unseen * (low - best), high + unseen * max(0.0, values[-1] - high)
