"""Asks for estimates of GPU memory: of the precision in question, and of what could be done where it does not fit."""

from legroom.questions.memory.allocator.ledger import MemoryEstimate
from legroom.questions.memory.records import MemoryQuestion, TraceMemory
from legroom.requests import JobDescription
from legroom.session import Session


def trace_memory(session: Session, question: MemoryQuestion, description: JobDescription) -> None:
    """Trace the job's step; the logbook then holds the estimate and, where nothing fits, those of remedies."""
    session.progress("tracing a step", 0.3)
    largest = _trace(session, question.trace()).largest_batch(question.budget_bytes)
    if question.effective_batch is not None and question.effective_batch > largest:
        session.progress("tracing two passes", 0.5)
        _trace(session, question.trace(accumulation_steps=2))  # gradients are held from pass to pass
    if description.uneven:
        session.progress("tracing a typical step", 0.6)
        _trace(session, question.trace(samples="typical"))
    if largest < 1:
        trace_remedies(session, question)


def trace_remedies(session: Session, question: MemoryQuestion) -> None:
    """Trace what might fit where the step in question does not."""
    for precision in dict.fromkeys((question.precision, "fp32", "bf16")):
        session.progress(f"tracing a step in {precision}", 0.8)
        _trace(session, question.trace(precision=precision))


def _trace(session: Session, request: TraceMemory) -> MemoryEstimate:
    return MemoryEstimate.from_record(session.ask(request).estimate)
