"""Asks what an answer needs, by the way that the question's place and rule call for; the logbook then holds it."""

from legroom.errors import DoesNotFit
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.card_search import find_on_card
from legroom.questions.memory.estimate_advice import does_not_fit
from legroom.questions.memory.evidence import gather
from legroom.questions.memory.host_search import find_on_host
from legroom.questions.memory.proofs import prove_accumulation
from legroom.questions.memory.records import MemoryQuestion, TraceMemory
from legroom.questions.memory.thesis import probe_thesis
from legroom.session import Session


def search(session: Session, question: MemoryQuestion) -> None:
    """Run or trace steps until the logbook holds the answer."""
    if question.rule == "thesis":
        probe_thesis(session, question)
    elif not question.is_here:
        _trace(session, question)
    else:
        _prove(session, question)


def _prove(session: Session, question: MemoryQuestion) -> None:
    """The largest batches, and the micro-batch of the batch asked for; where nothing fits, a trace tells what would."""
    if question.device == "cpu":
        find_on_host(session, question)
    else:
        try:
            find_on_card(session, question)
        except DoesNotFit:
            _trace_remedies(session, question)
            raise does_not_fit(gather(session.records, question)) from None
    if question.effective_batch is not None:
        prove_accumulation(session, question)


def _trace(session: Session, question: MemoryQuestion) -> None:
    """Trace the job's step and, where nothing fits, what might."""
    session.progress("tracing a step", 0.3)
    largest = _estimate(session, question.trace()).largest_batch(question.budget_bytes)
    if question.effective_batch is not None and question.effective_batch > largest:
        session.progress("tracing two passes", 0.5)
        _estimate(session, question.trace(accumulation_steps=2))  # gradients are held from pass to pass
    if session.records.description().uneven:
        session.progress("tracing a typical step", 0.6)
        _estimate(session, question.trace(samples="typical"))
    if largest < 1:
        _trace_remedies(session, question)


def _trace_remedies(session: Session, question: MemoryQuestion) -> None:
    for precision in dict.fromkeys((question.precision, "fp32", "bf16")):
        session.progress(f"tracing a step in {precision}", 0.8)
        _estimate(session, question.trace(precision=precision))


def _estimate(session: Session, request: TraceMemory) -> MemoryEstimate:
    return MemoryEstimate.from_record(session.ask(request).estimate)
