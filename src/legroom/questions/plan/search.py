"""Asks what the formula needs, cheapest first: speed, the rate at a likely batch, the batch again, then loading."""

import math
from dataclasses import replace

from legroom.errors import JobError, NothingMeasured
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.devices.ask import devices
from legroom.questions.devices.ask import foresee as foresee_devices
from legroom.questions.loading.ask import foresee as foresee_loading
from legroom.questions.loading.ask import loading
from legroom.questions.plan.asking import SHARES, Search
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.choice import choose, ways
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.forecast import BLINK, Forecast, forecast_of
from legroom.questions.plan.found import rehearsal_words
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.plan.rehearsal import rehearse
from legroom.questions.plan.seeking import LONG, seek_again, seek_first, whole_run_seconds
from legroom.questions.plan.way import way_of_run
from legroom.questions.speed.ask import speed
from legroom.questions.variants.ask import LEAST_SECONDS as LEAST_VARIANTS_SECONDS
from legroom.questions.variants.ask import variants
from legroom.session import Session
from legroom.units import format_seconds

LITTLE = 0.03
"""Of a step: loading that takes no more is not worth asking about."""
TRIED_SHARE, TRIED_OWN_SHARE, MOST_TRIED = 0.2, 0.1, 2
"""Of the budget, that trying a choice out may take; of the job's own run, where that is long; and how many choices."""
MEASURED_FOR_LINK = 2
"""Devices that are run together where more than are here are asked for: two tell the link."""
VARIANTS_SHARE, VARIANTS_RUN_SHARE = 0.2, 0.5
"""Of the budget, and of the plan's run, that asking for variants of the step may take."""
UNASKED = "Whether bf16, channels-last, a fused optimizer or torch.compile pay was not asked"


def ask_others(search: Search, most: int | None) -> Candidate | None:
    """All but memory, and the way that is to be run; None where nothing could be judged by a target."""
    search.learn(notes=[*search.question.notes, *search.known.notes])
    found = search.known.speed or search.ask("speed", speed, quick=True)
    search.learn(speed=found)
    with search.session() as session:
        description = session.describe(search.run.seed)
    search.learn_job(description)
    is_sought = seek_first(search, description, most)
    _ask_devices(search, most)
    if is_sought:
        seek_again(search, description, most)
    _miss_numbers(search, most)
    best = choose(search.question, most)
    size = best.batch_size if best else None
    _ask_loading(search, size or _likely(search, most), most)
    _ask_variants(search, _likely(search, most))
    _try_out(search)
    _ask_variants(search, _likely(search, most), tried=True)
    return choose(search.question, most)


def _likely(search: Search, most: int | None) -> int:
    """The batch that a plan without a rate will run, before memory is known."""
    question = search.question
    assert question.speed is not None
    own, knee = int(question.baseline["batch_size"]), question.speed.knee_batch_size
    likely = knee if own < question.speed.range[0] else own
    return question.batch_size or min(likely, most or likely, search.question.num_samples or likely)


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
            search.miss(f"How many devices pay was not asked: the budget left {search.told()} for it. Raise --budget")
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


def _miss_numbers(search: Search, most: int | None) -> None:
    """Say which numbers of devices were asked for in vain: at batches of which each would get too little, say."""
    question = search.question
    told = {one.num_devices for one in ways(question, most)}
    untold = [f"{num:,}" for num in question.numbers if num not in told]
    if question.devices is not None and untold:
        search.miss(
            f"{' and '.join(untold)} devices were asked for, and nothing tells what they take at batches that suit the "
            "target; the plan is without them. Name fewer with --devices"
        )


def _try_out(search: Search) -> None:
    """What was chosen on fresh seeds; where that is not what it promised, the next best."""
    started = search.run.clock()
    search.run.progress("rehearsal: the plan's own run on fresh seeds", SHARES["rehearsal"][0])
    with search.session() as session:
        session.describe(search.run.seed)
        for _ in range(MOST_TRIED):
            found = forecast_of(search.question, untried=True)
            is_here = found is not None and found.chosen.num_devices <= search.question.num_devices_here
            if found is None or not (is_here and found.is_worth_trying) or not _rehearse(search, session, found):
                break
            tried = forecast_of(search.question)
            if tried is not None and tried.is_better:
                break
        if session.records.seconds():
            search.note("rehearsal", search.run.clock() - started, rehearsal_words(search.question.rehearsals))


def _rehearse(search: Search, session: Session, found: Forecast) -> bool:
    """Runs of one choice, as many as a share of the budget and of a long run of the job's own allow; whether any was
    made."""
    question, whole = search.question, whole_run_seconds(search.question)
    wanted = TRIED_SHARE * search.budget if whole <= LONG else min(TRIED_SHARE * search.budget, TRIED_OWN_SHARE * whole)
    limit = min(wanted, search.left())
    try:
        runs = rehearse(session, question, found, search.about.device, search.run.seed, limit)
    except JobError as error:
        if question.variants and question.variants.chosen:
            search.miss(f"Variants of the step were left out: a run with them failed. {error}")
            search.learn(variants=None)
        elif found.chosen.num_devices > 1:
            search.miss(f"The plan is for one device: a run on several failed. {error}")
            search.learn(numbers=(1,))
        else:
            raise
        return False
    if not runs and limit < wanted:
        search.miss(f"The plan was not tried out on fresh seeds: the budget left {search.told()}. Raise --budget")
    search.learn(rehearsals=[*question.rehearsals, *runs])
    return bool(runs)


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
            search.miss(f"{UNASKED}: the budget left {search.told()}, not {limit} s. Raise --budget")
    elif limit >= LEAST_VARIANTS_SECONDS:
        settings = {name: value for name, value in way.settings.items() if name not in ("precision", "seed")}
        words = {"settings": settings, "num_steps": way.num_steps, "budget": float(limit)}
        search.learn(variants=search.ask("variants", variants, **words))


def _ask_loading(search: Search, size: int, most: int | None) -> None:
    """The loader at that batch, unless its answer could change hardly anything."""
    known = search.known.loading
    if any(one.batch_size == size for one in known):
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
