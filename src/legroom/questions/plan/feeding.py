"""Asks which loader feeds the updates: before rates are sought where updates wait for it, else for what was chosen."""

import math

from legroom.laws.time_to_target import compute_seconds
from legroom.questions.loading.ask import foresee as foresee_loading
from legroom.questions.loading.ask import loading
from legroom.questions.plan.asking import Search
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.factors import pace_of, timed_pace
from legroom.questions.plan.forecast import BLINK, forecast_of
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.plan.way import way_of_run
from legroom.requests import JobDescription
from legroom.units import format_seconds

LITTLE = 0.03
"""Of a step: loading that takes no more is not worth asking about."""
WAITS, SAVES_SECONDS = 1.3, 30.0
"""Times its seconds with a loader that uses every core, that an update takes, and the seconds of the job's own run
that this would save: where both are more, every run of the plan would wait too."""


def feed_first(search: Search, description: JobDescription) -> None:
    """Loaders compared before any run is made, where the job's own updates wait for theirs; the plan's runs do not.

    What lies in the folder does not decide it: the answer there may be what this plan asked later, before it goes on.
    """
    size = search.question.batch_size or int(description.baseline["batch_size"])
    if not _waits(search.question, description, size):
        return
    if any(one.batch_size == size for one in search.known.loading):
        ask_loading(search, size, None)
    elif search.affords(foresee_loading):
        search.learn(loading=[search.ask("loading first", loading, batch_size=size), *search.known.loading])


def _waits(question: PlanQuestion, description: JobDescription, size: int) -> bool:
    """Whether reading samples, as long as it took in the first look at the data, holds the job's own updates up."""
    pace, reading = timed_pace(question), description.sample_seconds
    if pace is None or not reading or description.own_loader or question.own_steps is None:
        return False
    computing = compute_seconds(size, pace.sizes, pace.seconds)
    num_workers = min(int(description.baseline["num_workers"]), question.num_cores)
    loading = size * reading
    now = max(computing, loading / num_workers) if num_workers else computing + loading
    at_best = max(computing, loading / question.num_cores)
    saved = question.own_steps * question.own_size / size * (now - at_best)
    return now > WAITS * at_best and saved > SAVES_SECONDS


def ask_loading(search: Search, size: int, most: int | None) -> None:
    """The loader at that batch, unless its answer could change hardly anything or was found before rates were."""
    known = search.known.loading
    if search.question.loading:
        return
    if any(one.batch_size == size for one in known):
        search.use("loading", known)
        search.learn(loading=known)
        return
    if why := _why_no_workers(search.question, size, most):
        search.learn(notes=[*search.question.notes, f"{why}, so workers were not compared"])
        return
    if not search.affords(foresee_loading):
        told = f"the budget left {search.told()} for it. Raise --budget"
        search.miss(f"Workers stay as the job has them: loaders were not compared, {told}")
        search.learn(loading=known)
        return
    search.learn(loading=[search.ask("loading", loading, batch_size=size), *known])


def _why_no_workers(question: PlanQuestion, size: int, most: int | None) -> str:
    """Why loading ahead of the step could save nobody anything, as a clause; empty where it may."""
    run, pace = middle_run(question.runs), pace_of(question)
    if run is None or pace is None or run.num_workers or run.wait_seconds is None:
        return ""
    loads = pace.inline_seconds * size
    share, way = loads / pace.step(size, 0), way_of_run(question, forecast_of(question, most), size)
    if share < LITTLE:
        return f"Loading a batch of {size:,} takes {share:.1%} of a step"
    num_samples = way.num_steps * way.size if way else math.inf
    seconds = pace.inline_seconds * num_samples
    return f"Loading takes {format_seconds(seconds)} of the whole run" if seconds < BLINK else ""
