"""Questions that take several probes and more than one kind of advice."""

from dataclasses import replace

from legroom.advisors.combine import combine
from legroom.advisors.estimate import advise_estimate, does_not_fit, estimates_of
from legroom.advisors.loading import LoadingAnswer
from legroom.advisors.loading_thesis import advise_loading_thesis
from legroom.advisors.memory import MemoryAnswer, advise_memory
from legroom.advisors.plan_batch import needs_passes, worth_proving
from legroom.advisors.thesis import advise_thesis
from legroom.cards import capability_of
from legroom.errors import DoesNotFit, UsageError
from legroom.job import Settings
from legroom.known import KnownAnswers, find_known
from legroom.plan import Plan
from legroom.probes.largest_batch import find_largest_batch
from legroom.probes.largest_card_batch import find_largest_card_batch, read_budget
from legroom.probes.loading_thesis import measure_loading_thesis
from legroom.probes.place import Place
from legroom.probes.proofs import prove_accumulation
from legroom.probes.session import Session
from legroom.probes.thesis import measure_thesis
from legroom.probes.traced import trace_memory, trace_remedies
from legroom.records import (
    JobDescription,
    LoadingQuestion,
    MemoryQuestion,
)
from legroom.setting_rules import PRECISIONS


def memory_question(place: Place, precision: str | None, description: JobDescription, seed: int) -> MemoryQuestion:
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"There is no precision {precision!r}. Known: {', '.join(PRECISIONS)}")
    return MemoryQuestion(
        device=place.device,
        budget_bytes=place.budget_bytes,
        precision=precision or description.baseline["precision"],
        up_to_data=not place.is_named,
        num_workers=description.baseline["num_workers"],
        seed=seed,
        card=place.card,
        capability=capability_of(place.card) if place.card else 9,
    )


def ask_memory(session: Session, question: MemoryQuestion, description: JobDescription, place: Place) -> MemoryAnswer:
    if question.effective_batch is not None and description.own_step:
        raise UsageError("This job has its own step, so legroom cannot accumulate for it; leave --effective-batch out")
    if not place.is_here:
        trace_memory(session, question, description)
        session.progress("done", 1.0)
        return advise_estimate(session.logbook, question)
    if question.device == "cpu":
        find_largest_batch(session, question, description)
    else:
        question = read_budget(session, question, description)
        _find_on_card(session, question, description)
    if question.effective_batch is not None:
        found = advise_memory(session.logbook, replace(question, effective_batch=None))
        question = replace(question, allocator=found.allocator or question.allocator)
        prove_accumulation(session, question, found.max_batch_size)
    session.progress("done", 1.0)
    return advise_memory(session.logbook, question)


def _find_on_card(session: Session, question: MemoryQuestion, description: JobDescription) -> None:
    """The search; where nothing fits, a trace tells what would."""
    try:
        find_largest_card_batch(session, question, description)
    except DoesNotFit:
        trace_remedies(session, question)
        raise does_not_fit(estimates_of(session.logbook.entries, question), question) from None


def ask_plan(session: Session, question: MemoryQuestion, description: JobDescription, place: Place) -> Plan:
    """The plan from the answers in the folder; memory is asked where none holds, as far as a batch could pay."""
    baseline, known = Settings(**description.baseline), KnownAnswers()
    if place.is_here:
        if question.device != "cpu":
            question = read_budget(session, question, description)
        known = find_known(session.logbook, question, budget_named=place.is_named)
    worth = worth_proving(baseline.batch_size, known.speed)
    question = replace(question, most=worth.most)
    memory = known.memory or ask_memory(session, question, description, place)
    if place.is_here and not description.own_step and needs_passes(baseline, memory, known.speed):
        whole = baseline.batch_size * baseline.accumulation_steps
        memory = ask_memory(session, replace(question, effective_batch=whole), description, place)
    notes = [*known.notes, *([] if known.memory else worth.note(memory))]
    return combine(
        session.address,
        memory,
        speed=known.speed,
        loading=known.loading,
        notes=notes,
        own_step=description.own_step,
    )


def ask_thesis(session: Session, question: MemoryQuestion, description: JobDescription) -> MemoryAnswer:
    question = read_budget(session, question, description)
    measure_thesis(session, question)
    return advise_thesis(session.logbook, question)


def ask_loading_thesis(
    session: Session, question: LoadingQuestion, description: JobDescription, largest_batch: int | None
) -> LoadingAnswer:
    limit = largest_batch or question.batch_size
    assumed = f"No largest batch was named, so the job's own {limit:,} stands for it; legroom memory finds it"
    notes = [] if largest_batch else [assumed]
    question, ratios = measure_loading_thesis(session, question, description, limit)
    return advise_loading_thesis(session.logbook, question, ratios, limit, notes)
