"""Asks what the formula needs, cheapest first: speed, the rate at a likely batch, the batch again, then loading."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from legroom.errors import JobError, NothingMeasured
from legroom.job_address import AnyJob, address_of
from legroom.plan_use import samples_between_looks
from legroom.questions.base import START_SECONDS, Answer, Foreseen
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.devices.ask import devices
from legroom.questions.devices.ask import foresee as foresee_devices
from legroom.questions.loading.ask import foresee as foresee_loading
from legroom.questions.loading.ask import loading
from legroom.questions.plan.choice import Candidate, choose, first_batch
from legroom.questions.plan.evidence import Target, current_entries, middle_run, own_runs, paces
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.known import Circumstances, KnownAnswers, find_known
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.plan.rehearsal import is_worth_trying, rehearse
from legroom.questions.plan.way import way_of_run
from legroom.questions.rate.ask import rate
from legroom.questions.speed.ask import speed
from legroom.questions.variants.ask import LEAST_SECONDS as LEAST_VARIANTS_SECONDS
from legroom.questions.variants.ask import variants
from legroom.requests import JobDescription
from legroom.session import Run, Session, open_session
from legroom.training.records import Train

Found = TypeVar("Found", bound=Answer)
SHARES = {
    "speed": (0.0, 0.15),
    "rate": (0.15, 0.6),
    "baseline": (0.6, 0.65),
    "devices": (0.65, 0.67),
    "rate again": (0.67, 0.75),
    "loading": (0.75, 0.8),
    "variants": (0.8, 0.83),
    "rehearsal": (0.83, 0.87),
}
"""Of the progress bar."""
RATE_SECONDS, RATE_SHARE, MOST_SHARE = 45.0, 0.35, 0.5
"""What seeking a rate may take: so many seconds, or that share of the job's own run where that is more, and no more
than that share of the plan's budget."""
WORTH_MORE = 1.5
"""Times what seeking a rate took in vain, that must be left of the budget for seeking on."""
AGAIN_SHARE = 0.5
"""Of that, for a second batch."""
OWN_BUDGET_SHARE = 0.25
"""Of the plan's budget, for runs by the job's own settings that are not long."""
OWN_SHARE = 0.25
"""Of that, for a run by the job's own settings to a target that was named."""
NUM_EVALUATIONS = 50
LITTLE = 0.03
"""Of a step: loading that takes no more is not worth asking about."""
LEAST_RATE_SECONDS = 5.0
PROOF_SECONDS, PROOF_SHARE = 10.0, 0.15
"""Of the budget, that are kept for the proof of memory: so many seconds, or that share where that is less."""
TRIED_SHARE, TRIED_OWN_SHARE, LONG = 0.2, 0.1, 120.0
"""Of the budget, that trying the plan out may take; of the job's own run, where that is longer than so many seconds."""
MEASURED_FOR_LINK = 2
"""Devices that are run together where more than are here are asked for: two tell the link."""


VARIANTS_SHARE, VARIANTS_RUN_SHARE = 0.2, 0.5
"""Of the budget, and of the plan's run, that asking for variants of the step may take."""
UNASKED = "Whether bf16, channels-last, a fused optimizer or torch.compile pay was not asked"


class Search:
    """Asks one question after the other, and keeps what they said in the plan's own question."""

    def __init__(
        self,
        job: AnyJob,
        options: Mapping[str, str] | None,
        run: Run,
        about: Circumstances,
        question: PlanQuestion,
        budget: float,
        link: str | None = None,
        started: float | None = None,
    ) -> None:
        self.job, self.address, self.run, self.about = job, address_of(job, options), run, about
        self.question, self.budget, self.link = question, budget, link
        self.started = run.clock() if started is None else started
        self.known: KnownAnswers = find_known(about)
        self.words: dict[str, Any] = {"options": options, "device": about.device, "precision": about.precision}

    def ask(self, name: str, function: Callable[..., Found], **words: Any) -> Found:
        """One question, its time noted and its progress told as a part of the whole."""
        low, high = SHARES[name]

        def progress(what: str, share: float) -> None:
            self.run.progress(f"{name}: {what}", low + share * (high - low))

        started = self.run.clock()
        found = function(self.job, run=replace(self.run, progress=progress), **self.words, **words)
        if found.seconds:
            self.note(name, self.run.clock() - started)
        return found

    def left(self) -> float:
        """Seconds of the budget that the next question may take, those of a proof of memory kept back."""
        kept_back = min(PROOF_SECONDS, PROOF_SHARE * self.budget)
        return self.budget - (self.run.clock() - self.started) - kept_back

    def affords(self, foresee: Callable[..., Foreseen], **words: Any) -> bool:
        """Whether what is left is enough for a question at its quickest."""
        given = {name: self.words[name] for name in ("options", "device")}
        foreseen = foresee(self.job, run=self.run, **given, **words)
        return self.left() >= sum(probe.seconds[0] for probe in foreseen.probes)

    def note(self, name: str, seconds: float) -> None:
        """Write down what a question took."""
        spent = {**self.question.spent, name: self.question.spent.get(name, 0.0) + seconds}
        self.question = replace(self.question, spent=spent)

    def learn(self, **found: Any) -> None:
        """Keep what was found."""
        self.question = replace(self.question, **found)

    def miss(self, sentence: str) -> None:
        """Say what stays open."""
        self.learn(missing=[*self.question.missing, sentence])

    def session(self) -> Session:
        """A session of the plan's own."""
        return open_session("plan", self.address, self.run)


def ask_others(search: Search, most: int | None) -> tuple[PlanQuestion, Candidate | None]:
    """All but memory, and the way that is to be run; None where nothing could be judged by a target."""
    search.learn(notes=[*search.question.notes, *search.known.notes])
    found = search.known.speed or search.ask("speed", speed, quick=True)
    search.learn(speed=found)
    with search.session() as session:
        description = session.describe(search.run.seed)
    search.learn(
        baseline=dict(description.baseline),
        num_samples=description.widest_batch or description.num_samples,
        parameter_bytes=description.parameter_bytes,
        looks_samples=samples_between_looks(description),
    )
    _ask_rates(search, description, most)
    best = choose(search.question, most)
    size = best.batch_size if best else None
    _ask_loading(search, size or _likely(search, most))
    _ask_variants(search, _likely(search, most))
    _try_out(search)
    _ask_variants(search, _likely(search, most), tried=True)
    return search.question, choose(search.question, most)


def _likely(search: Search, most: int | None) -> int:
    """The batch that a plan without a rate will run, before memory is known."""
    question = search.question
    assert question.speed is not None
    own, knee = int(question.baseline["batch_size"]), question.speed.knee_batch_size
    likely = knee if own < question.speed.range[0] else own
    return question.batch_size or min(likely, most or likely, search.question.num_samples or likely)


def _ask_rates(search: Search, description: JobDescription, most: int | None) -> None:
    """The rate at a likely batch; where another one should be clearly sooner, there as well."""
    lacks = lacks_for_rate(description)
    if lacks:
        search.miss(lacks)
        return
    search.learn(is_judged=True)
    question = search.question
    if question.batch_size is None and search.known.rates:
        search.learn(rates=search.known.rates)
    else:
        size = question.batch_size or _first(search, most)
        known = [one for one in search.known.rates if one.batch_size == size]
        if known:
            search.learn(rates=known)
        elif not _ask_rate(search, "rate", size, search.about.target, _first_budget(search)):
            return
        else:
            _go_on(search, size)
    _read_training(search, description)
    _ask_devices(search, most)
    best = choose(search.question, most)
    if best is not None and _is_untried(search, best, most):
        missing, budget = search.question.missing, min(AGAIN_SHARE * rate_budget(search), search.left())
        if _ask_rate(search, "rate again", best.size, _same_target(search), budget) or budget >= LEAST_RATE_SECONDS:
            search.learn(missing=missing)  # a rate that was not found there is moved there, and tried out
        _read_training(search, description)


def _is_untried(search: Search, best: Candidate, most: int | None) -> bool:
    """Whether no rate was sought at that update, and one device can make it in a pass to seek it there."""
    assert search.question.speed is not None
    largest = max(int(point["batch_size"]) for point in search.question.speed.points)
    tried = {one.batch_size for one in search.question.rates}
    return best.size not in tried and (best.num_devices == 1 or best.size <= min(largest, most or largest))


def _ask_devices(search: Search, most: int | None) -> None:
    """What several devices take at the batch that is best on one: whole on each, and shared out."""
    numbers = search.question.numbers
    if max(numbers) == 1:
        return
    alone = choose(replace(search.question, numbers=(1,)), most)
    if alone is None:
        search.miss("How many devices pay was not asked: without updates to a target nothing tells what they save")
        return
    here = [num for num in numbers if num <= search.question.num_devices_here]
    size = alone.batch_size
    measured = None if search.link else max(here, default=0) if max(here, default=0) > 1 else MEASURED_FOR_LINK
    found: DevicesAnswer | None = search.known.devices(size, search.link, numbers)
    if found is None:
        if not search.affords(foresee_devices, measured=measured or 1):
            search.miss(f"How many devices pay was not asked: the budget left {_told(search)} for it. Raise --budget")
            return
        words = {"batch_size": size, "most": max(numbers), "measured": measured, "link": search.link}
        try:
            told = search.ask("devices", devices, **words)
        except (JobError, NothingMeasured) as error:
            search.miss(f"How many devices pay is unknown: they could not train together. {error}")
            return
        assert isinstance(told, DevicesAnswer)
        found = told
    search.learn(devices=found)


def _same_target(search: Search) -> str:
    """The target that was found first, by its number."""
    target = search.question.rates[0].target
    return f"{target['name']}={target['value']!r}"


def _go_on(search: Search, size: int) -> None:
    """Where no rate was at the target yet, seek on for as long as the plan's budget allows; trials are recalled."""
    first = search.question.rates[-1]
    # Trials that are recalled count as when they were made: so what they took is not taken off twice.
    most = min(MOST_SHARE * search.budget, search.left() + search.question.spent.get("rate", 0.0))
    if first.reached or first.target["from"] == "begun" or most < WORTH_MORE * rate_budget(search):
        return
    search.learn(missing=search.question.missing[:-1])
    _ask_rate(search, "rate again", size, _same_target(search), most)


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

    Long ones are forecast from their beginning, so that a plan costs no more than a part of such a run.
    """
    return OWN_BUDGET_SHARE * search.budget if whole_run_seconds(search.question) <= LONG else None


def whole_run_seconds(question: PlanQuestion) -> float:
    """Of a whole run by the job's own settings, evaluations left out."""
    pace, own = pace_of(question), int(question.baseline["batch_size"])
    return (question.own_steps or 0) * (pace.step(own, 0) if pace else 0.0)


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
        search.miss(f"{what}: the budget left {_told(search)} to seek it. Raise --budget")
        return False
    try:
        found = search.ask(name, rate, batch_size=size, target=target, budget=budget, own_seconds=own_seconds(search))
    except NothingMeasured as error:
        search.miss(f"No rate was found at batches of {size:,}: {str(error).rstrip('.')}")
        return False
    search.learn(rates=[*search.question.rates, found])
    if found.target["from"] == "begun":
        search.miss(
            "What the job's own settings reach is unknown: their run hardly began in its share of the budget. "
            "Raise --budget, or name a --target"
        )
    elif not found.reached:
        words = f"{found.target['name']} {found.target['value']:.4g}"
        search.miss(
            f"No rate reached {words} at batches of {size:,} in {budget:.0f} s; the best was {found.best_value:.4g}. "
            "Raise --budget, or name a --target that the job can reach"
        )
    return True


def _read_training(search: Search, description: JobDescription) -> None:
    """What the logbook holds of runs by the job's own settings; one is made where a named target left none."""
    found = search.question.target
    target: Target | None = (found["name"], found["value"]) if found else None
    with search.session() as session:
        session.describe(search.run.seed)
        now = session.records.head
        entries = current_entries(session.logbook.path, now)
        runs = own_runs(entries, description, search.about.device, target)
        if not runs and target is not None and search.left() < START_SECONDS + OWN_SHARE * rate_budget(search):
            told = "What the job's own settings take to the target was not measured: the budget left"
            search.miss(f"{told} {_told(search)}. Raise --budget")
        elif not runs and target is not None:
            _run_own(search, session, target)
            entries = current_entries(session.logbook.path, now) + session.records.entries
            runs = own_runs(entries, description, search.about.device, target)
    precision = search.about.precision or str(description.baseline["precision"])
    search.learn(runs=runs, paces=paces(entries, search.about.device, precision))


def _run_own(search: Search, session: Session, target: Target) -> None:
    """A run by the job's own settings to the target, as far as a share of the budget goes."""
    started, question = search.run.clock(), search.question
    search.run.progress("baseline: a run by the job's own settings", SHARES["baseline"][0])
    every = max(1, (question.own_steps or NUM_EVALUATIONS) // NUM_EVALUATIONS)
    seconds = OWN_SHARE * rate_budget(search)
    settings: Mapping[str, Any] = {**question.baseline, "seed": search.run.seed}
    request = Train(
        device=search.about.device, settings=settings, evaluate_steps=every, max_seconds=seconds, target=target
    )
    session.ask(request)
    if session.records.seconds():
        search.note("baseline", search.run.clock() - started)


def _told(search: Search) -> str:
    """Seconds left, as a sentence has them."""
    return f"{max(0.0, search.left()):.0f} s"


def _try_out(search: Search) -> None:
    """The chosen run on fresh seeds, where that is cheap: a share of the budget, and of a long run of the job's own."""
    started, whole = search.run.clock(), whole_run_seconds(search.question)
    limit = TRIED_SHARE * search.budget if whole <= LONG else min(TRIED_SHARE * search.budget, TRIED_OWN_SHARE * whole)
    search.run.progress("rehearsal: the plan's own run on fresh seeds", SHARES["rehearsal"][0])
    with search.session() as session:
        session.describe(search.run.seed)
        limit, wanted = min(limit, search.left()), limit
        try:
            found = rehearse(session, search.question, search.about.device, search.run.seed, limit)
        except JobError as error:
            if search.question.variants and search.question.variants.chosen:
                search.miss(f"Variants of the step were left out: a run with them failed. {error}")
                search.learn(variants=None)
                return
            tried = forecast_of(search.question)
            if tried is None or tried.chosen.num_devices == 1:
                raise
            search.miss(f"The plan is for one device: a run on several failed. {error}")
            search.learn(numbers=(1,))
            found = []
        if not found and limit < wanted and is_worth_trying(search.question):
            search.miss(f"The plan was not tried out on fresh seeds: the budget left {_told(search)}. Raise --budget")
        search.learn(rehearsals=found)
        if session.records.seconds():
            search.note("rehearsal", search.run.clock() - started)


def _ask_variants(search: Search, likely: int, *, tried: bool = False) -> None:
    """Whether bf16 and the like pay for what will be run: as chosen, or by the job's own settings where they stay.

    tried: what was chosen was tried out by now; where it stays, so does what was found.
    """
    found = forecast_of(search.question)
    is_chosen = found is not None and (found.is_better or (found.is_worth_trying and not tried))
    if tried and is_chosen:
        return
    search.learn(variants=None)
    way = way_of_run(search.question, found if is_chosen else None, likely)
    if way is None or way.settings.get("num_devices", 1) != 1:
        return
    known = search.known.variants(way.settings["batch_size"])
    limit = round(min(VARIANTS_SHARE * search.budget, VARIANTS_RUN_SHARE * way.seconds))
    if known is not None:
        search.learn(variants=known)
    elif limit >= LEAST_VARIANTS_SECONDS and search.left() < limit:
        if not any(sentence.startswith(UNASKED) for sentence in search.question.missing):
            search.miss(f"{UNASKED}: the budget left {_told(search)}, not {limit} s. Raise --budget")
    elif limit >= LEAST_VARIANTS_SECONDS:
        settings = {name: value for name, value in way.settings.items() if name not in ("precision", "seed")}
        words = {"settings": settings, "num_steps": way.num_steps, "budget": float(limit)}
        search.learn(variants=search.ask("variants", variants, **words))


def _ask_loading(search: Search, size: int) -> None:
    """The loader at that batch, unless its answer could change hardly anything."""
    known = search.known.loading
    run, pace = middle_run(search.question.runs), pace_of(search.question)
    if any(one.batch_size == size for one in known):
        search.learn(loading=known)
        return
    if run is not None and pace is not None and run.num_workers == 0 and run.wait_seconds is not None:
        share = pace.inline_seconds * size / pace.step(size, 0)
        if share < LITTLE:
            note = f"Loading a batch of {size:,} takes {share:.1%} of a step, so workers were not compared"
            search.learn(notes=[*search.question.notes, note])
            return
    if not search.affords(foresee_loading):
        told = f"the budget left {_told(search)} for it. Raise --budget"
        search.miss(f"Workers stay as the job has them: loaders were not compared, {told}")
        search.learn(loading=known)
        return
    search.learn(loading=[search.ask("loading", loading, batch_size=size), *known])
