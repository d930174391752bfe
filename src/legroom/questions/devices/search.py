"""What is measured: one device at the batches in question, then 2, 4, 8 ... together."""

from dataclasses import replace

from legroom.errors import OutOfMemory
from legroom.questions.devices.evidence import gather, numbers_measured, ranks_request
from legroom.questions.devices.records import DevicesQuestion
from legroom.session import Session

NUM_HALVES = 5
"""Halvings of the batch that are timed for strong scaling."""
GAINS = 1.05
"""Times the throughput that twice the batch must give before `--rule local-peak` takes it."""
LARGEST_BATCH = 2**20


def sizes_for(batch_size: int, *, strong: bool, least: int) -> list[int]:
    """Batches of one device: the one in question, and where it is to be shared its halves.

    >>> sizes_for(64, strong=True, least=2), sizes_for(64, strong=False, least=2)
    ([2, 4, 8, 16, 32, 64], [64])
    """
    sizes = {batch_size}
    while strong and len(sizes) <= NUM_HALVES and min(sizes) // 2 >= least:
        sizes.add(min(sizes) // 2)
    return sorted(sizes)


def local_peak(session: Session, question: DevicesQuestion) -> DevicesQuestion:
    """The question at the batch per device from which twice as much gains hardly any throughput."""
    size, limit = question.batch_size, min(LARGEST_BATCH, question.num_samples or LARGEST_BATCH)
    best = session.ask(question.backward(size))
    while 2 * size <= limit:
        session.progress(f"batch of {2 * size:,} on one device", 0.05)
        twice = session.ask(question.backward(2 * size))
        if twice.outcome != "measured" or 2 * best.step_seconds < GAINS * twice.step_seconds:
            break
        size, best = 2 * size, twice
    return replace(question, batch_size=size, batch_sizes=[size])


def measure(session: Session, question: DevicesQuestion) -> None:
    """Ask for all that the question needs, the costly last."""
    numbers = numbers_measured(question)
    num_all = len(question.batch_sizes) + 3 * len(numbers)
    for place, size in enumerate(sorted(question.batch_sizes, reverse=True)):
        session.progress(f"batch of {size:,} on one device", 0.05 + 0.9 * place / num_all)
        if session.ask(question.backward(size)).outcome != "measured" and size == question.batch_size:
            raise OutOfMemory(f"A batch of {size:,} does not fit one device. Name a smaller one with --batch-size")
    evidence = gather(session.records.entries, question)
    for place, num in enumerate(numbers):
        done = len(question.batch_sizes) + 3 * place
        session.progress(f"{num} devices together", 0.05 + 0.9 * done / num_all)
        session.ask(ranks_request(evidence, question, num))
