"""`legroom memory`: how large a batch fits?"""

from collections.abc import Mapping
from dataclasses import replace

from legroom.environments import EXPANDABLE, STEADY_MALLOC
from legroom.errors import DoesNotFit, UsageError
from legroom.host.cards import capability_of
from legroom.host.target import Target, choose_target
from legroom.job_address import AnyJob, JobAddress, address_of
from legroom.questions.base import Foreseen, check_word
from legroom.questions.memory.advice import advise_memory
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.memory.card_search import find_largest_card_batch, read_budget
from legroom.questions.memory.estimate import advise_estimate, does_not_fit, estimates_of
from legroom.questions.memory.foresee import foresee_memory
from legroom.questions.memory.host_search import find_largest_batch
from legroom.questions.memory.proofs import prove_accumulation
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.memory.thesis import advise_thesis
from legroom.questions.memory.thesis_search import measure_thesis
from legroom.questions.memory.traced import trace_memory, trace_remedies
from legroom.requests import JobDescription
from legroom.session import Run, Session, earlier_entries, keep, open_session
from legroom.setting_rules import PRECISIONS

RULES = ("legroom", "thesis")


def memory(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    precision: str | None = None,
    effective_batch: int | None = None,
    num_devices: int = 1,
    rule: str = "legroom",
    run: Run | None = None,
) -> MemoryAnswer:
    """How large a batch fits? Proved in a fresh process; estimated for a GPU that is not here."""
    run = run or Run()
    address = address_of(job, options)
    for name, number in (("--effective-batch", effective_batch), ("--devices", num_devices)):
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1")
    check_word("rule", rule, RULES)
    target = choose_target(run.host, device, memory, card)
    if num_devices > 1 and target.device == "cpu":
        raise UsageError("--devices is about GPUs that train together; add --device cuda or --card")
    if rule == "thesis" and (target.device == "cpu" or not target.is_here):
        raise UsageError("--rule thesis reads what torch reserved on a GPU, and there is none here; use --rule legroom")
    with open_memory_session("memory", address, run, target) as session:
        description = session.describe(run.seed)
        question = memory_question(target, precision, description, run.seed)
        question = replace(question, num_devices=num_devices, effective_batch=effective_batch)
        if rule == "thesis":
            answer = _ask_thesis(session, question, description)
        else:
            answer = ask_memory(session, question, description, target)
        answer = replace(answer, budget_named=target.is_named, effective_batch=effective_batch, rule=rule)
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
    """Which probes would `memory` and `plan` run, and how long should they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    is_here = choose_target(run.host, device, memory, card).is_here
    return foresee_memory(earlier_entries(address, run), job=address.text, machine=run.host.name, is_here=is_here)


def open_memory_session(command: str, address: JobAddress, run: Run, target: Target) -> Session:
    """A session whose proof on a GPU finds its process ready: it starts with the first one."""
    on_gpu = target.device == "cuda" and target.is_here
    session = open_session(command, address, run, EXPANDABLE if on_gpu else STEADY_MALLOC)
    if on_gpu:
        try:
            session.warm(EXPANDABLE)
        except BaseException:  # no process could be started: nobody else would let go of the folder
            session.close()
            raise
    return session


def memory_question(target: Target, precision: str | None, description: JobDescription, seed: int) -> MemoryQuestion:
    """The question as the user's words and the job make it."""
    if precision is not None:
        check_word("precision", precision, PRECISIONS)
    return MemoryQuestion(
        device=target.device,
        budget_bytes=target.budget_bytes,
        precision=precision or description.baseline["precision"],
        up_to_data=not target.is_named,
        num_workers=description.baseline["num_workers"],
        seed=seed,
        card=target.card,
        capability=capability_of(target.card) if target.card else 9,
    )


def ask_memory(session: Session, question: MemoryQuestion, description: JobDescription, target: Target) -> MemoryAnswer:
    """Search and advise, in a session that is open."""
    if question.effective_batch is not None and description.own_step:
        raise UsageError("This job has its own step, so legroom cannot accumulate for it; leave --effective-batch out")
    if not target.is_here:
        trace_memory(session, question, description)
        return advise_estimate(session.records, question)
    if question.device == "cpu":
        find_largest_batch(session, question, description)
    else:
        question = read_budget(session, question, description)
        _find_on_card(session, question, description)
    if question.effective_batch is not None:
        found = advise_memory(session.records, replace(question, effective_batch=None))
        question = replace(question, allocator=found.allocator or question.allocator)
        prove_accumulation(session, question, found.max_batch_size)
    return advise_memory(session.records, question)


def with_budget(session: Session, question: MemoryQuestion, description: JobDescription) -> MemoryQuestion:
    """The question with the bytes that the card here has for it; on a host they are known already."""
    return question if question.device == "cpu" else read_budget(session, question, description)


def _find_on_card(session: Session, question: MemoryQuestion, description: JobDescription) -> None:
    """The search; where nothing fits, a trace tells what would."""
    try:
        find_largest_card_batch(session, question, description)
    except DoesNotFit:
        trace_remedies(session, question)
        raise does_not_fit(estimates_of(session.records.entries, question), question) from None


def _ask_thesis(session: Session, question: MemoryQuestion, description: JobDescription) -> MemoryAnswer:
    question = read_budget(session, question, description)
    measure_thesis(session, question)
    return advise_thesis(session.records, question)
