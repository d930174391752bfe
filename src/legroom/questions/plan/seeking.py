"""Seeks a plan's rate: at a likely batch, at one that should be sooner, and what the job's own settings take."""

from collections.abc import Mapping, Sequence
from typing import Any

from legroom.errors import JobError, NothingMeasured
from legroom.logbook import Entry
from legroom.questions.base import START_SECONDS
from legroom.questions.plan.asking import SHARES, Search
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.choice import choose, first_batch
from legroom.questions.plan.evidence import Target, current_entries, is_own, own_runs, paces
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.found import found_words, own_words
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.ask import rate
from legroom.requests import JobDescription
from legroom.session import Session
from legroom.training.records import Train

RATE_SECONDS, RATE_SHARE, MOST_SHARE = 45.0, 0.35, 0.5
"""What seeking a rate may take: so many seconds, or that share of the job's own run where that is more, and no more
than that share of the plan's budget."""
WORTH_MORE = 0.3
"""Times what seeking a rate took in vain, that must be left of the budget for seeking on: without a rate there is no
plan."""
AGAIN_SHARE = 0.5
"""Of what seeking a rate may take, for a second batch."""
OWN_BUDGET_SHARE, OWN_MARGIN = 0.25, 1.15
"""Of the plan's budget, for runs by the job's own settings where one lasts no longer, and what looks add to one."""
LATER_SHARE, LATER_FROM = 0.2, 6.0
"""Of the plan's budget, kept for what makes updates faster and for trying the plan out, where the job's own run takes
at least so many seconds: a search for a rate that is not there yet could take all."""
OWN_SHARE = 0.25
"""Of what seeking a rate may take, for a run by the job's own settings to a target that was named."""
NUM_EVALUATIONS = 50
LEAST_RATE_SECONDS = 5.0


def seek_first(search: Search, description: JobDescription, most: int | None) -> bool:
    """The rate at a likely batch, and what the job's own settings take to the target; whether one was sought."""
    lacks = lacks_for_rate(description)
    if lacks:
        search.miss(lacks)
        return False
    search.learn(is_judged=True, trial_workers=_workers_found(search.question))
    question = search.question
    if question.batch_size is None and search.known.rates:
        _use(search, search.known.rates)
    else:
        size = question.batch_size or _first(search, most)
        known = [one for one in search.known.rates if one.batch_size == size]
        if known:
            _use(search, known)
        elif not _ask_rate(search, "rate", size, search.about.target, _first_budget(search)):
            return False
        else:
            _go_on(search, size)
    _read_training(search, description)
    return True


def _workers_found(question: PlanQuestion) -> int | None:
    """Loader processes for trials, where loaders were compared before; None for the job's own."""
    return question.loading[0].num_workers if question.loading else None


def _use(search: Search, known: Sequence[RateAnswer]) -> None:
    search.use("rate", known)
    search.learn(rates=known)


def seek_again(search: Search, description: JobDescription, most: int | None) -> None:
    """The rate at another batch, where that should be clearly sooner."""
    best = choose(search.question, most)
    if best is not None and _is_untried(search, best, most):
        missing = search.question.missing
        budget = min(AGAIN_SHARE * rate_budget(search), search.left() - _kept_for_later(search))
        if _ask_rate(search, "rate again", best.size, _same_target(search), budget) or budget >= LEAST_RATE_SECONDS:
            search.learn(missing=missing)  # a rate that was not found there is moved there, and tried out
        _read_training(search, description)


def _is_untried(search: Search, best: Candidate, most: int | None) -> bool:
    """Whether no rate was sought at that update, and one device can make it in a pass to seek it there."""
    assert search.question.speed is not None
    largest = max(int(point["batch_size"]) for point in search.question.speed.points)
    tried = {one.batch_size for one in search.question.rates}
    return best.size not in tried and (best.num_devices == 1 or best.size <= min(largest, most or largest))


def _same_target(search: Search) -> str:
    """The target that was found first, by its number."""
    target = search.question.rates[0].target
    return f"{target['name']}={target['value']!r}"


def _go_on(search: Search, size: int) -> None:
    """Where no rate was at the target yet, seek on for as long as the plan's budget allows; trials are recalled."""
    first, left = search.question.rates[-1], search.left() - _kept_for_later(search)
    if first.reached or first.target["from"] == "begun" or left < WORTH_MORE * rate_budget(search):
        return
    search.learn(missing=search.question.missing[:-1])
    # Trials that are recalled count as when they were made: so what they took is not taken off twice.
    _ask_rate(search, "rate again", size, _same_target(search), left + search.question.spent.get("rate", 0.0))


def lacks_for_rate(description: JobDescription) -> str:
    """What a job would need for a rate to be sought; empty where it has all."""
    if description.own_step:
        return "Rate, schedule and length are the job's own: it has its own step; they would need loss and optimizer"
    if not description.has_valid:
        return (
            "Rate, schedule and length are the job's own: they are judged on validation data; give the Job valid_data"
        )
    if description.num_samples is None:
        return (
            "Rate, schedule and length are the job's own: the length of an epoch is unknown; give the Job num_samples"
        )
    return ""


def rate_budget(search: Search) -> float:
    """Seconds for seeking a rate: more where the job's own run is long, so that the plan costs a share of it."""
    return min(MOST_SHARE * search.budget, max(RATE_SECONDS, RATE_SHARE * whole_run_seconds(search.question)))


def _first_budget(search: Search) -> float:
    """That, within what is left; runs by the job's own settings may take theirs beside it."""
    beside = own_seconds(search) if search.about.target == "same" else None
    return min(rate_budget(search), search.left() - (beside or 0.0))


def own_seconds(search: Search) -> float | None:
    """Seconds for runs by the job's own settings, where these are short: they tell the target and what is to be beaten.

    Long ones are forecast from their beginning, so that a plan costs no more than a part of such a run, and none is
    begun that would be broken off.
    """
    whole, most = OWN_MARGIN * whole_run_seconds(search.question), OWN_BUDGET_SHARE * search.budget
    return most if whole <= most else None


def _kept_for_later(search: Search) -> float:
    """Seconds that seeking a rate leaves to what comes after it."""
    return LATER_SHARE * search.budget if whole_run_seconds(search.question) >= LATER_FROM else 0.0


def whole_run_seconds(question: PlanQuestion) -> float:
    """Of a whole run by the job's own settings, evaluations left out."""
    pace, own = pace_of(question), int(question.baseline["batch_size"])
    passes, workers = int(question.baseline["accumulation_steps"]), int(question.baseline["num_workers"])
    return (question.own_steps or 0) * (pace.step(own, workers, passes) if pace else 0.0)


def _first(search: Search, most: int | None) -> int:
    question, pace = search.question, pace_of(search.question)
    assert question.speed is not None
    assert pace is not None
    sizes = [int(point["batch_size"]) for point in question.speed.points]
    largest = min(max(sizes), most or max(sizes))
    return first_batch(question.own_size, sizes, lambda size: pace.step(size, 0), question.num_samples, largest)


def _ask_rate(search: Search, name: str, size: int, target: str, budget: float) -> bool:
    """Whether a rate was found at that batch."""
    if budget < LEAST_RATE_SECONDS:
        what = "Rate, schedule and length are the job's own"
        if search.question.rates:
            what = f"The rate at updates of {size:,} is moved from another batch, not measured"
        search.miss(f"{what}: the budget left {search.told()} to seek it. Raise --budget")
        return False
    beside = {"own_seconds": own_seconds(search), "num_workers": search.question.trial_workers}
    try:
        found = search.ask(name, rate, batch_size=size, target=target, budget=budget, **beside)
    except (JobError, NothingMeasured) as error:
        search.miss(f"No rate was found at batches of {size:,}: {str(error).rstrip('.')}")
        return False
    search.learn(rates=[*search.question.rates, found])
    if found.target["from"] == "begun":
        search.miss(
            "What the job's own settings reach is unknown: their run hardly began in its share of the budget. "
            "Raise --budget, or name a --target"
        )
    elif not found.reached:
        words, name = found_words(found), "name a --target that the job can reach"
        # Without a curve that leads there, more time is not what is missing.
        told = f"Raise --budget, or {name}" if found.extrapolated_steps else f"N{name[1:]}"
        search.miss(f"N{words[1:]}. {told}")
    return True


def _read_training(search: Search, description: JobDescription) -> None:
    """What the logbook holds of runs by the job's own settings; one is made where a named target left none."""
    found = search.question.target
    target: Target | None = (found["name"], found["value"]) if found else None
    with search.session() as session:
        session.describe(search.run.seed)
        now, version, fresh = session.records.head, description.torch_version, search.about.fresh
        entries = current_entries(session.logbook.path, now, version, fresh=fresh)
        runs = own_runs(entries, description, search.about.device, target)
        made = [entry for entry in entries if _is_run(entry, description, search.about.device)]
        search.use_entries("baseline", made, f"{len(made)} runs by the job's own settings")
        if not runs and target is not None and search.left() < START_SECONDS + OWN_SHARE * rate_budget(search):
            told = "What the job's own settings take to the target was not measured: the budget left"
            search.miss(f"{told} {search.told()}. Raise --budget")
        elif not runs and target is not None:
            _run_own(search, session, target)
            entries = current_entries(session.logbook.path, now, version, fresh=fresh) + session.records.entries
            runs = own_runs(entries, description, search.about.device, target)
    precision = search.about.precision or str(description.baseline["precision"])
    workers = search.question.trial_workers
    num_workers = int(description.baseline["num_workers"]) if workers is None else workers
    search.learn(runs=runs, paces=paces(entries, search.about.device, precision, num_workers))


def _is_run(entry: Entry, description: JobDescription, device: str) -> bool:
    """Whether it is one that a plan, and not its search for a rate, made by the job's own settings."""
    return isinstance(entry.request, Train) and is_own(entry.request, description, device)


def _run_own(search: Search, session: Session, target: Target) -> None:
    """A run by the job's own settings to the target, as far as a share of the budget goes."""
    mark, question = search.mark(), search.question
    search.run.progress("baseline: a run by the job's own settings", SHARES["baseline"][0])
    every = max(1, (question.own_steps or NUM_EVALUATIONS) // NUM_EVALUATIONS)
    seconds = OWN_SHARE * rate_budget(search)
    settings: Mapping[str, Any] = {**question.baseline, "seed": search.run.seed}
    request = Train(
        device=search.about.device, settings=settings, evaluate_steps=every, max_seconds=seconds, target=target
    )
    ran = session.ask(request)
    search.note("baseline", mark, session.records.seconds(), own_words(ran))
