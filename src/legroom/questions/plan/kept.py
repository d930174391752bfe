"""What may change where the job's own batch, rate and length stay: what turns of its updates show to be faster."""

import math
import statistics
from dataclasses import replace

from legroom.questions.plan.baseline import baseline_of
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.faster import Changes, variables_at, variants_at
from legroom.questions.plan.forecast import BLINK
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.plan.tried import surely_in_turns

SURELY = 1.5
"""Times an update's seconds with the loader that was found, that one takes with the job's own: what loaders alone were
measured to give then needs no turns."""


def changes_of_own(question: PlanQuestion) -> Changes:
    """Workers, variants of the step and variables that were found for the job's own batch."""
    batch_size = int(question.baseline["batch_size"])
    quick, variables = variants_at(question, batch_size), variables_at(question, batch_size)
    faster = {item.name: item.value for item in quick.recommendations} if quick else {}
    if faster.get("compile"):  # that takes longer than a turn does, so nothing else could be told beside it
        return Changes(settings=faster)
    settings = {**_loader_at(question, batch_size), **faster}
    return Changes(
        settings={name: value for name, value in settings.items() if value != question.baseline[name]},
        variables=variables.values if variables else {},
    )


def _loader_at(question: PlanQuestion, batch_size: int) -> dict[str, int]:
    found = next((one for one in question.loading if one.batch_size == batch_size), None)
    if found is None:
        return {}
    ahead = {"prefetch_factor": found.prefetch_factor} if found.num_workers else {}
    return {"num_workers": found.num_workers, **ahead}


def own_ratio(question: PlanQuestion) -> float | None:
    """Seconds of the job's own updates with these changes over those without; None where that is not surely less."""
    changes, quick = changes_of_own(question), question.variants
    if changes.settings.get("compile") and quick is not None:  # `variants` timed its turns once it was compiled
        return 1 / quick.speedup
    ratios = [
        turn.step_seconds / turn.own_step_seconds
        for turn in question.turns
        if (dict(turn.settings), dict(turn.variables)) == (dict(changes.settings), dict(changes.variables))
    ]
    if not changes:
        return None
    if not ratios:
        return _fed_ratio(question, changes)
    middle = math.exp(statistics.fmean(map(math.log, ratios)))
    own = baseline_of(question).candidate
    is_noticed = own is None or own.num_steps * own.step_seconds * (1 - middle) >= BLINK
    return middle if is_noticed and middle * surely_in_turns(ratios) < 1 else None


def _fed_ratio(question: PlanQuestion, changes: Changes) -> float | None:
    """The same of a loader alone that nothing was tried out with, where it surely pays: its seconds with the step over
    the least that the job's own number of workers could take, by what one of them, or none, was measured to give."""
    batch_size, own = (int(question.baseline[name]) for name in ("batch_size", "num_workers"))
    found = next((one for one in question.loading if one.batch_size == batch_size), None)
    if found is None or changes.variables or set(changes.settings) - {"num_workers", "prefetch_factor"}:
        return None
    parts, throughput = found.batch_seconds, found.samples_per_second
    one_worker, step = parts.get("one_worker"), parts.get("step", 0.0)
    least = max(step, one_worker / own) if own and one_worker else step + parts.get("preparation", 0.0)
    if (own and not one_worker) or not throughput or not least:
        return None
    ratio = batch_size / throughput / least
    return ratio if ratio * SURELY <= 1 else None


def changes_that_pay(question: PlanQuestion) -> Changes:
    """Those, where they surely pay; else none."""
    return Changes() if own_ratio(question) is None else changes_of_own(question)


def own_run_seconds(question: PlanQuestion, own: Candidate) -> float:
    """Of the job's own run to the target, with the changes that pay for it."""
    ratio, quick = own_ratio(question), question.variants
    if ratio is None:
        return own.seconds
    start = quick.start_seconds if quick and variants_at(question, own.batch_size) else 0.0
    return replace(own, step_seconds=ratio * own.step_seconds).seconds + start
