"""What is measured: one device at the batches in question, then 2, 4, 8 ... together."""

from dataclasses import replace

from legroom.errors import JobError, OutOfMemory
from legroom.questions.devices.evidence import gather, numbers_measured, ranks_request, wrapped_request
from legroom.questions.devices.records import DevicesQuestion, TimeWrapped
from legroom.reports.numbers import quantity
from legroom.requests import JobDescription
from legroom.session import Session

NUM_HALVES = {"strong": 5, "weak": 2}
"""Halvings of the batch that are timed; in weak scaling alone for unequal devices, which share it too."""
GAINS = 1.05
"""Times the throughput that twice the batch must give before `--rule local-peak` takes it."""
LARGEST_BATCH = 2**20
STATES = {**dict.fromkeys(("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "LAMB"), 2), "SGD": 1, "RMSprop": 1}
"""Numbers that an optimizer keeps of each weight; SGD's where it has momentum."""


def sizes_for(batch_size: int, *, strong: bool, least: int) -> list[int]:
    """Batches of one device: the one in question, and its halves for when it is to be shared.

    >>> sizes_for(64, strong=True, least=2), sizes_for(64, strong=False, least=2)
    ([2, 4, 8, 16, 32, 64], [16, 32, 64])
    """
    sizes, num_halves = {batch_size}, NUM_HALVES["strong" if strong else "weak"]
    while len(sizes) <= num_halves and min(sizes) // 2 >= least:
        sizes.add(min(sizes) // 2)
    return sorted(sizes)


def local_peak(session: Session, question: DevicesQuestion) -> DevicesQuestion:
    """The question at the batch per device from which twice as much gains hardly any throughput."""
    size = question.largest_batch or question.batch_size
    # A second device needs as many samples for its share of the same update.
    limit = min(LARGEST_BATCH, (question.num_samples or LARGEST_BATCH) // min(2, question.num_most))
    best = session.ask(question.backward(size))
    while 2 * size <= limit:
        session.progress(f"batch of {2 * size:,} on one device", 0.05)
        twice = session.ask(question.backward(2 * size))
        if twice.outcome != "measured" or 2 * best.step_seconds < GAINS * twice.step_seconds:
            break
        size, best = 2 * size, twice
    sizes = sizes_for(size, strong=False, least=2)
    return replace(question, batch_size=size, batch_sizes=sizes, largest_batch=None)


def fit(session: Session, question: DevicesQuestion, description: JobDescription) -> DevicesQuestion:
    """The question with what one device holds of its batch: where that is less, a step is made in several passes."""
    size = question.batch_size
    while session.ask(question.backward(size)).outcome != "measured":
        if size == 1:
            raise OutOfMemory(f"Not one sample fits a device. {_shared_out(description)}")
        size //= 2
    if size == question.batch_size:
        return question
    note = f"A batch of {question.batch_size:,} does not fit one device, where {size:,} do"
    sizes = sizes_for(size, strong="strong" in question.scalings, least=1)
    return replace(question, largest_batch=size, batch_sizes=sizes, notes=[*question.notes, note])


def _shared_out(description: JobDescription) -> str:
    """What is left of the model on each device where its weights are shared out."""
    name = description.optimizer_name
    states = STATES.get(name)
    whole = (2 + (states or 0)) * description.parameter_bytes
    parts = ", ".join(f"{quantity(whole / num, 'bytes')} on each of {num}" for num in (2, 8, 64))
    what = f"weights, gradients and the state of {name}" if states else "weights and gradients"
    unknown = "activations, which nobody saw," if states else "optimizer and activations, which nobody saw,"
    return (
        f"Its {what} take {quantity(whole, 'bytes')}; {unknown} come on top. Shared out they take {parts}. Train with "
        "legroom train --devices N --shard, or name a smaller model"
    )


def measure(session: Session, question: DevicesQuestion) -> DevicesQuestion:
    """Ask for all that the question needs, the costly last; the question with what could not be measured."""
    numbers = numbers_measured(question)
    num_all = len(question.batch_sizes) + 3 * len(numbers)
    for place, size in enumerate(sorted(question.batch_sizes, reverse=True)):
        session.progress(f"batch of {size:,} on one device", 0.05 + 0.9 * place / num_all)
        session.ask(question.backward(size))
    if (threaded := question.threaded()) is not None:
        session.ask(threaded)
    evidence = gather(session.records.entries, question)
    question = _ask_wrapped(session, question, wrapped_request(evidence, question))
    for place, num in enumerate(numbers):
        done = len(question.batch_sizes) + 3 * place
        session.progress(f"{num} devices together", 0.05 + 0.9 * done / num_all)
        try:
            session.ask(ranks_request(evidence, question, num))
        except JobError as error:
            if place == 0:  # without a link there is no forecast, and no answer to speak of
                raise
            return replace(question, missing=[*question.missing, f"{num} devices together and more: {error}"])
    return _ask_data_parallel(session, question)


def _ask_data_parallel(session: Session, question: DevicesQuestion) -> DevicesQuestion:
    request = question.data_parallel()
    if request is None:
        return question
    try:
        session.ask(request)
    except JobError as error:
        return replace(question, missing=[*question.missing, f"nn.DataParallel beside it: {error}"])
    return question


def _ask_wrapped(session: Session, question: DevicesQuestion, request: TimeWrapped | None) -> DevicesQuestion:
    if request is None:
        return question
    try:
        session.ask(request)
    except JobError as error:
        missing = f"what DistributedDataParallel costs besides the link, in one process: {error}"
        return replace(question, missing=[*question.missing, missing])
    return question
