"""`legroom memory`: how large a batch fits?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from legroom.environments import EXPANDABLE, STEADY_MALLOC
from legroom.errors import UsageError
from legroom.host.cards import capability_of
from legroom.host.target import Target, choose_target
from legroom.job_address import AnyJob, JobAddress, address_of
from legroom.logbook import Entry
from legroom.questions.base import (
    START_SECONDS,
    Foreseen,
    ForeseenProbe,
    check_counts,
    check_precision,
    check_word,
    foreseen_probe,
    typical_seconds,
)
from legroom.questions.memory.advice import advise
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.memory.records import MemoryQuestion, StepPeaks, TraceMemory
from legroom.questions.memory.search import search
from legroom.requests import Describe, ReadCard
from legroom.session import Run, Session, earlier_entries, keep, open_session
from legroom.setting_rules import check_workers
from legroom.units import format_bytes

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
    check_counts({"--effective-batch": effective_batch, "--devices": num_devices})
    check_precision(precision)
    check_word("rule", rule, RULES)
    target = choose_target(run.host, device, memory, card)
    if num_devices > 1 and target.device == "cpu":
        raise UsageError("--devices is about GPUs that train together; add --device cuda or --card")
    if rule == "thesis" and (target.device == "cpu" or not target.is_here):
        raise UsageError("--rule thesis reads what torch reserved on a GPU, and there is none here; use --rule legroom")
    words = {"num_devices": num_devices, "effective_batch": effective_batch, "rule": rule}
    with open_memory_session("memory", address, run, target) as session:
        question = memory_question(session, target, precision, run.seed, **words)
        session.note(question)
        return keep(session, ask_memory(session, question))


def ask_memory(session: Session, question: MemoryQuestion) -> MemoryAnswer:
    """Search and advise, in a session that is open."""
    search(session, question)
    return advise(session.records, question)


def open_memory_session(command: str, address: JobAddress, run: Run, target: Target) -> Session:
    """The session of a question about memory; on a GPU the process of the first proof is started at once."""
    on_gpu = target.device == "cuda" and target.is_here
    counts_host = target.device == "cpu"
    session = open_session(command, address, run, EXPANDABLE if on_gpu else STEADY_MALLOC, alone=counts_host)
    if on_gpu:
        try:
            session.warm(EXPANDABLE)
        except BaseException:  # no process could be started: nobody else would let go of the folder
            session.close()
            raise
    return session


def memory_question(session: Session, target: Target, precision: str | None, seed: int, **more: Any) -> MemoryQuestion:
    """The question as the user's words, the job and the card make it."""
    description = session.describe(seed)
    if target.device == "cpu":  # loader processes run beside its proofs
        check_workers(description.baseline["num_workers"], session.host.limits.num_cores)
    question = MemoryQuestion(
        device=target.device,
        budget_bytes=target.budget_bytes,
        precision=precision or description.baseline["precision"],
        up_to_data=not target.is_named,
        num_workers=description.baseline["num_workers"],
        card=target.card,
        capability=capability_of(target.card) if target.card else 9,
        is_here=target.is_here,
        budget_named=target.is_named,
        seed=seed,
        **more,
    )
    if question.effective_batch is not None and description.own_step:
        raise UsageError("This job has its own step, so legroom cannot accumulate for it; leave --effective-batch out")
    return _on_card(session, question) if target.is_here and target.device != "cpu" else question


def _on_card(session: Session, question: MemoryQuestion) -> MemoryQuestion:
    """The question with the bytes torch may reserve on this card: what was named, or all that is free."""
    session.progress("reading the card", 0.05)
    card = session.ask(ReadCard())
    if question.budget_bytes > card.free_bytes:
        raise UsageError(
            f"{format_bytes(question.budget_bytes)} is more than {card.name} has free: "
            f"{format_bytes(card.free_bytes)} of {format_bytes(card.total_bytes)}, other processes and the CUDA "
            "context taken off. Name less with --memory"
        )
    budget = question.budget_bytes or card.free_bytes
    buckets = question.bucket_bytes(session.records.description().num_trainable)
    return replace(question, budget_bytes=budget - buckets)


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
    entries = earlier_entries(address, run)
    reading = foreseen_probe(
        "read the job in a child process", (1, 1), typical_seconds(entries, Describe, START_SECONDS)
    )
    source = "earlier records of this job" if entries else "a small job on two cores; a heavy model takes longer"
    return Foreseen(
        job=address.text,
        machine=run.host.name,
        seconds=0.0,
        notes=[f"Times are those of {source}"],
        probes=[reading, *(_measured(entries) if is_here else _traced(entries))],
    )


def _measured(entries: Sequence[Entry]) -> list[ForeseenProbe]:
    probes, proofs = ([entry for entry in entries if entry.request.fresh == fresh] for fresh in (False, True))
    return [
        foreseen_probe(
            "3 training steps and an evaluation pass at a small batch size",
            (3, 9),
            typical_seconds(probes, StepPeaks, 0.5),
        ),
        foreseen_probe(
            "proof: 5 to 20 training steps and evaluation passes in a fresh process",
            (1, 5),
            typical_seconds(proofs, StepPeaks, START_SECONDS + 2.0),
        ),
    ]


def _traced(entries: Sequence[Entry]) -> list[ForeseenProbe]:
    seconds = typical_seconds(entries, TraceMemory, START_SECONDS + 5.0)
    return [foreseen_probe("trace a step without running it on a GPU, in a fresh process", (1, 3), seconds)]
