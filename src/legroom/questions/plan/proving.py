"""Has memory proved for what a plan runs: no batch above it, with its workers, variables and options of the step."""

from dataclasses import replace
from typing import Any

from legroom.host.target import Target
from legroom.job import FASTER
from legroom.questions.memory.answer import MemoryAnswer, as_run
from legroom.questions.memory.ask import ask_memory, memory_question, open_memory_session
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.plan.asking import Search
from legroom.questions.plan.batch import MULTIPLE, Worth, first_worth, needs_passes, refuse_batch
from legroom.questions.plan.candidates import Candidate, workers_at
from legroom.questions.plan.faster import changes_at
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.kept import changes_that_pay
from legroom.questions.plan.known import find_memory, workers_proved
from legroom.questions.plan.recommend import nearest
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.plan.unproved import MISSING, seen_memory
from legroom.session import Session


def prove_named(search: Search, place: Target) -> MemoryAnswer:
    """What a budget of memory that was named holds: nothing larger is to be tried."""
    with open_memory_session("plan", search.address, search.run, place) as session:
        question = memory_asked(search, session, place)
        search.learn_job(session.records.description())
        refuse_batch(search.question)
        own = int(search.question.baseline["batch_size"])
        known, _ = find_memory(search.about, question)
        if known is not None:
            search.use("memory", [known])
        return known or ask_memory(session, replace(question, most=first_worth(own).most))


def memory_asked(search: Search, session: Session, place: Target, num_devices: int = 1) -> MemoryQuestion:
    """The question about memory, up to what the data set holds."""
    asked = memory_question(session, place, search.about.precision, search.run.seed, num_devices=num_devices)
    return replace(asked, up_to_data=True)


def learn_memory(
    search: Search,
    session: Session,
    asked: MemoryQuestion,
    way: Candidate | None,
    proved: MemoryAnswer | None,
    *,
    is_late: bool,
) -> None:
    """An answer to memory, proved as far as a batch could be run; or what others saw of it, where it is too late."""
    question, own_step = search.question, session.records.description().own_step
    own, adopted = int(question.baseline["batch_size"]), way if way and _is_adopted(question) else None
    worth = first_worth(own)
    if question.speed is not None:
        worth = Worth(most=_to_be_run(question, adopted), because="the plan runs none larger")
    workers = _workers_to_run(question, adopted)
    asked = replace(asked, most=worth.most, num_workers=workers, **_as_run(question, adopted))
    has_workers = proved is None or _has_workers(proved, asked)
    is_alike = proved is None or (has_workers and as_run(proved) == as_run(asked))
    holds = proved is None or (proved.num_devices == asked.num_devices and (is_alike or is_late))
    known, notes = (proved, ()) if (proved and holds) or not asked.is_here else find_memory(search.about, asked)
    search.learn(notes=[*question.notes, *notes])
    if known is not None and known is not proved:
        search.use("memory", [known])
    if known is None and is_late:
        search.learn(memory=seen_memory(session, asked, question))
        search.miss(MISSING)
        return
    if known is not None and known is proved and not has_workers:
        search.miss(f"memory beside {asked.num_workers} loader processes: it was proved beside {workers_proved(known)}")
    if known is not None and as_run(known) != as_run(asked):
        search.miss("memory with what makes the plan's updates faster: it was proved without")
    memory = known or ask_memory(session, asked)
    if asked.is_here and not way and not own_step and needs_passes(question, memory):
        memory = ask_memory(session, replace(asked, effective_batch=question.own_size))
    first = Worth(most=MULTIPLE * own, because=f"that is {MULTIPLE} times the job's own")
    is_bounded = known is not None and known is proved and known.max_batch_size == first.most
    bound = first.note(memory) if is_bounded else [] if known else worth.note(memory)
    search.learn(memory=replace(memory, notes=[*memory.notes, *bound]))


def _is_adopted(question: PlanQuestion) -> bool:
    """Whether what was chosen takes the place of the job's own settings."""
    found = forecast_of(question)
    return found is not None and found.is_better


def _to_be_run(question: PlanQuestion, adopted: Candidate | None) -> int:
    """The largest batch that the plan may name: the job's own is what a user goes back to."""
    near = nearest(question)
    others = (adopted and adopted.batch_size, question.batch_size, near and near.batch_size)
    return max(int(question.baseline["batch_size"]), *(size or 1 for size in others))


def _as_run(question: PlanQuestion, adopted: Candidate | None) -> dict[str, Any]:
    """Options of the step and variables of the environment that the plan will name, as far as is known before memory
    is."""
    changes = changes_at(question, adopted) if adopted is not None else changes_that_pay(question)
    named = {name: value for name, value in changes.settings.items() if name in FASTER}
    options = {name: value for name, value in named.items() if value != question.baseline[name]}
    return {"options": options, "variables": dict(changes.variables)}


def _workers_to_run(question: PlanQuestion, adopted: Candidate | None) -> int:
    """Loader processes that the plan will name: they share a host's memory with the step."""
    if adopted is None and question.is_judged and nearest(question) is None:
        own = question.baseline["num_workers"]
        return int(changes_that_pay(question).settings.get("num_workers", own))
    return workers_at(question, adopted.batch_size if adopted else int(question.baseline["batch_size"]))


def _has_workers(proved: MemoryAnswer, asked: MemoryQuestion) -> bool:
    return asked.device != "cpu" or workers_proved(proved) >= asked.num_workers
