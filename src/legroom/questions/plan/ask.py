"""`legroom plan`: what should I run?"""

from collections.abc import Mapping
from dataclasses import replace

from legroom.host.target import choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.plan_file import Plan, write_plan
from legroom.questions.base import Foreseen
from legroom.questions.memory.ask import ask_memory, memory_question, open_memory_session
from legroom.questions.memory.ask import foresee as foresee_memory
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.plan.advice import answer_of, combine
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.batch import needs_passes, worth_proving
from legroom.questions.plan.known import KnownAnswers, find_known
from legroom.session import Run, Session, keep


def plan(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    precision: str | None = None,
    run: Run | None = None,
) -> PlanAnswer:
    """What should I run? Takes the answers in the folder, proves that the batch fits, and writes plan.toml."""
    run = run or Run()
    address = address_of(job, options)
    target = choose_target(run.host, device, memory, card)
    with open_memory_session("plan", address, run, target) as session:
        question = replace(memory_question(session, target, precision, run.seed), up_to_data=True)
        made = _ask_plan(session, question)
        path = session.logbook.path.parent / "plan.toml"
        write_plan(made, path)
        return keep(session, answer_of(made, seconds=session.records.seconds(), path=str(path)))


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `plan` run, and how long should they take? Runs none."""
    foreseen = foresee_memory(job, options=options, device=device, memory=memory, card=card, run=run)
    note = "An answer to memory in the folder that still holds takes the place of all but the first"
    return replace(foreseen, notes=[*foreseen.notes, note])


def _ask_plan(session: Session, question: MemoryQuestion) -> Plan:
    """The plan from the answers in the folder; memory is asked where none holds, as far as a batch could pay."""
    description = session.records.description()
    baseline, known = Settings(**description.baseline), KnownAnswers()
    if question.is_here:
        known = find_known(session.logbook, question, budget_named=question.budget_named)
    worth = worth_proving(baseline.batch_size, known.speed)
    question = replace(question, most=worth.most)
    memory = known.memory or ask_memory(session, question)
    if question.is_here and not description.own_step and needs_passes(baseline, memory, known.speed):
        whole = baseline.batch_size * baseline.accumulation_steps
        memory = ask_memory(session, replace(question, effective_batch=whole))
    notes = [*known.notes, *([] if known.memory else worth.note(memory))]
    return combine(
        session.address,
        memory,
        speed=known.speed,
        loading=known.loading,
        notes=notes,
        own_step=description.own_step,
    )
