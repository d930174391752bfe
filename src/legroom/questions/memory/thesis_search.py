"""The two probes of the thesis' rule, as it made them."""

from legroom.laws.thesis import NUM_STEPS, SIZES
from legroom.questions.memory.records import MemoryQuestion
from legroom.session import Session


def measure_thesis(session: Session, question: MemoryQuestion) -> None:
    """Reserved bytes over 20 steps at batches of 10 and 50 with the default allocator."""
    for share, size in enumerate(SIZES):
        session.progress(f"batch of {size}", 0.2 + 0.4 * share)
        # One after the other in fresh processes: what a first size left in the cache would count for the second.
        session.ask(question.request(size, num_steps=NUM_STEPS, allocator="default", proof=True))
