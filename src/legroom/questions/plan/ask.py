"""`legroom plan`: what should I run?"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from legroom.host.target import choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.plan_file import Plan, write_plan
from legroom.questions.base import Foreseen
from legroom.questions.memory.ask import ask_memory, memory_question, open_memory_session
from legroom.questions.memory.ask import foresee as foresee_memory
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.plan.advice import advise
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.batch import needs_passes, worth_proving
from legroom.questions.plan.known import KnownAnswers, find_known
from legroom.questions.plan.records import PlanQuestion
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
        about = replace(memory_question(session, target, precision, run.seed), up_to_data=True)
        question = _ask_others(session, about)
        session.note(question)
        answer = advise(session.records, question)
        write_plan(_plan_of(answer, address.options), Path(question.path))
        return keep(session, answer)


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


def _ask_others(session: Session, about: MemoryQuestion) -> PlanQuestion:
    """Take the answers in the folder; ask memory where none holds, as far as a batch could pay."""
    description = session.records.description()
    baseline = Settings(**description.baseline)
    known = find_known(session.logbook, about) if about.is_here else KnownAnswers()
    worth = worth_proving(baseline.batch_size, known.speed)
    about = replace(about, most=worth.most)
    memory = known.memory or ask_memory(session, about)
    if about.is_here and not description.own_step and needs_passes(baseline, memory, known.speed):
        whole = baseline.batch_size * baseline.accumulation_steps
        memory = ask_memory(session, replace(about, effective_batch=whole))
    return PlanQuestion(
        path=str(session.logbook.path.parent / "plan.toml"),
        memory=memory,
        speed=known.speed,
        loading=known.loading,
        notes=[*known.notes, *([] if known.memory else worth.note(memory))],
    )


def _plan_of(answer: PlanAnswer, options: Mapping[str, str]) -> Plan:
    """The answer as plan.toml has it."""
    return Plan(
        job=answer.job,
        options=options,
        machine=answer.machine,
        goal=answer.goal,
        settings=Settings(**answer.settings),
        recommendations=answer.recommendations,
        notes=answer.notes,
        not_measured=answer.not_measured,
    )
