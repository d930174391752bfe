"""Asks what the formula needs, cheapest first: speed, the loader where updates wait for it, the rate at a likely batch,
the batch again, else the loader now."""

from dataclasses import replace

from legroom.errors import JobError, NothingMeasured, UsageError
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.devices.ask import devices
from legroom.questions.devices.ask import foresee as foresee_devices
from legroom.questions.plan.ask_faster import ask_faster
from legroom.questions.plan.asking import Search
from legroom.questions.plan.batch import refuse_batch
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.choice import choose, knows_energy, ways
from legroom.questions.plan.feeding import ask_loading, feed_first
from legroom.questions.plan.seeking import lacks_for_rate, seek_again, seek_first, whole_run_seconds
from legroom.questions.plan.trying import run_own, try_out, try_own
from legroom.questions.speed.ask import speed

MEASURED_FOR_LINK = 2
"""Devices that are run together where more than are here are asked for: two tell the link."""
LOOKS_SHARE = 0.25
"""Of the budget, after which no further batch is looked at but the job's own."""
NO_ENERGY = (
    "What samples take of energy is unknown: first looks on a GPU count none, so the plan is the cheapest by hours "
    "of it. legroom speed counts it; ask that first"
)


def ask_others(search: Search, most: int | None) -> Candidate | None:
    """All but memory, and the way that is to be run; None where nothing could be judged by a target."""
    known = search.known.speed
    if known is not None:
        search.use("speed", [known])
    if search.question.batch_size is not None:
        _check_batch(search)
    looking = LOOKS_SHARE * search.budget
    search.learn(speed=known or search.ask("speed", speed, quick=True, most_looking=looking))
    with search.session() as session:
        description = session.describe(search.run.seed)
    search.learn_job(description)
    search.bound_by(whole_run_seconds(search.question))
    if not lacks_for_rate(description):  # without rates, a batch is chosen first
        feed_first(search, description)
    is_sought = seek_first(search, description, most)
    search.bound_by(whole_run_seconds(search.question))  # with what the training loop and loading add
    _ask_devices(search, most)
    if is_sought:
        seek_again(search, description, most)
    _miss_numbers(search, most)
    ask_loading(search, _batch_to_feed(search, most), most)
    ask_faster(search, _likely(search, most))
    try_out(search)
    ask_faster(search, _likely(search, most), tried=True)
    run_own(search)
    try_own(search)
    if search.question.goal == "frugal" and not knows_energy(search.question):
        search.miss(NO_ENERGY)
    return choose(search.question, most)


def _check_batch(search: Search) -> None:
    """Look at the data before anything is timed."""
    mark = search.mark()
    with search.session() as session:
        search.learn_job(session.describe(search.run.seed))
        refuse_batch(search.question)
        search.note("speed", mark, session.records.seconds(), "the data has more samples than the batch")


def _batch_to_feed(search: Search, most: int | None) -> int:
    """That which was chosen, or came nearest to a target that was named; else the job's own, where that stays."""
    best, question = choose(search.question, most), search.question
    if best is not None:
        return best.batch_size
    if not question.is_judged:
        return _likely(search, most)
    is_named = question.target is not None and question.target["from"] == "given"
    return question.rates[-1].batch_size if is_named and question.rates else int(question.baseline["batch_size"])


def _likely(search: Search, most: int | None) -> int:
    """The batch that a plan without a rate will run, before memory is known."""
    likely = search.question.batch_size or int(search.question.baseline["batch_size"])
    return min(likely, most or likely, search.question.num_samples or likely)


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
    if found is not None:
        search.use("devices", [found])
    else:
        if not search.affords(foresee_devices, measured=measured or 1):
            search.miss(f"How many devices pay was not asked: the budget left {search.told()} for it. Raise --budget")
            return
        words = {"batch_size": size, "most": max(numbers), "measured": measured, "link": search.link}
        try:
            told = search.ask("devices", devices, **words)
        except (JobError, NothingMeasured, UsageError) as error:  # the last: a job that cannot be shared out
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
