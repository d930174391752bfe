"""Workers and batch by the thesis' rule, for comparison with ours on the same job."""

from collections.abc import Sequence
from dataclasses import replace

from legroom.laws.loading import thesis_workers
from legroom.laws.thesis import SIZES
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.loading.advice import advise_loading
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.records import LoadingQuestion

LEFT_OUT = "other numbers of workers: the rule tries none"
HOST_BYTES = tuple(size * 2**30 for size in (16, 32, 64, 128))
"""Memories of hosts that tables are made for."""


def advise_loading_thesis(
    records: Records, question: LoadingQuestion, ratios: Sequence[float], largest_batch: int, notes: Sequence[str]
) -> LoadingAnswer:
    """Its W and B, with the rate that they reached here, and what they would be on other hosts."""
    answer = advise_loading(records, question)
    shown = " and ".join(f"{ratio:.2f} at a batch of {size}" for ratio, size in zip(ratios, SIZES, strict=True))
    devices = "1 device" if question.num_devices == 1 else f"{question.num_devices} devices"
    because = f"fetching takes {shown} times as long as a step, on {devices}"
    made = [
        Recommendation(
            name="num_workers", value=answer.num_workers, range=None, because=because, evidence=["loader_rates"]
        ),
        Recommendation(
            name="batch_size",
            value=question.batch_size,
            range=None,
            because="the largest that the limit on the batch and host memory allow (eq. 4.13 to 4.17)",
            evidence=["loader_rates"],
        ),
    ]
    kept = [note for note in answer.notes if not note.startswith("No number of workers")]
    return replace(
        answer,
        rule="thesis",
        notes=[*kept, *notes],
        not_measured=[*answer.not_measured, LEFT_OUT],
        recommendations=made,
        batch_by_memory=by_memory(
            ratios,
            num_devices=question.num_devices,
            sample_bytes=records.description().sample_bytes[2],
            largest_batch=largest_batch,
        ),
    )


def by_memory(
    ratios: Sequence[float], *, num_devices: int, sample_bytes: int, largest_batch: int
) -> list[dict[str, int]]:
    """The rule's W and B on hosts of usual sizes, and around the size below which memory holds the batch down.

    >>> found = by_memory([3.2], num_devices=1, sample_bytes=2**20, largest_batch=1024)
    >>> [(row["memory_bytes"] // 2**30, row["num_workers"], row["batch_size"]) for row in found][:5]
    [(1, 4, 255), (2, 4, 511), (4, 4, 1023), (8, 4, 1024), (16, 4, 1024)]
    """

    def choose(memory_bytes: int) -> tuple[int, int]:
        return thesis_workers(
            ratios,
            num_devices=num_devices,
            memory_bytes=memory_bytes,
            sample_bytes=sample_bytes,
            largest_batch=largest_batch,
        )

    needed_bytes = choose(0)[0] * largest_batch * sample_bytes
    around = {2**power for power in range(max(0, needed_bytes.bit_length() - 3), needed_bytes.bit_length() + 1)}
    sizes = sorted({*HOST_BYTES, *(around if needed_bytes else ())})
    rows = [(size, *choose(size)) for size in sizes]
    return [dict(zip(("memory_bytes", "num_workers", "batch_size"), row, strict=True)) for row in rows]
