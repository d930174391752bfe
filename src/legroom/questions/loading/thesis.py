"""The thesis' joint choice of workers and batch: measured as it was made, and run once to be compared with ours."""

import math
from dataclasses import dataclass, replace

from legroom.errors import DoesNotFit, NothingMeasured
from legroom.laws.thesis import SIZES
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.records import INLINE, CompareLoaders, LoaderSettings, LoadingQuestion
from legroom.questions.loading.search import ask_comparison
from legroom.session import Session
from legroom.units import format_bytes

NUM_ITERATIONS = 50
HOST_BYTES = tuple(size * 2**30 for size in (16, 32, 64, 128))
"""Memories of hosts that tables are made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThesisRule:
    """Maximise B with W B I < DRAM, t_d <= (t_g / N) W, B <= B_m.

    A. Tripathi, "Analysis of Storage Bottlenecks in Deep Learning Models" (2019), eq. 4.13 to 4.17.
    """

    ratios: tuple[float, ...]
    """t_d / t_g: mean seconds to fetch a batch without workers over those to process it. The larger one counts."""
    num_devices: int = 1
    sample_bytes: float
    largest_batch: int

    def choose(self, memory_bytes: float) -> tuple[int, int]:
        """(W, B) on a host with that memory.

        >>> ThesisRule(ratios=(2.5, 3.2), num_devices=2, sample_bytes=1e6, largest_batch=256).choose(1e9)
        (7, 142)
        """
        num_workers = max(1, math.ceil(max(self.ratios) * self.num_devices))
        if not self.sample_bytes:
            return num_workers, self.largest_batch
        by_memory = math.ceil(memory_bytes / (num_workers * self.sample_bytes)) - 1
        return num_workers, max(0, min(self.largest_batch, by_memory))

    def by_memory(self) -> list[dict[str, int]]:
        """W and B on hosts of usual sizes, and around the size below which memory holds the batch down.

        >>> found = ThesisRule(ratios=(3.2,), sample_bytes=2**20, largest_batch=1024).by_memory()
        >>> [(row["memory_bytes"] // 2**30, row["num_workers"], row["batch_size"]) for row in found][:5]
        [(1, 4, 255), (2, 4, 511), (4, 4, 1023), (8, 4, 1024), (16, 4, 1024)]
        """
        needed_bits = int(self.choose(0)[0] * self.largest_batch * self.sample_bytes).bit_length()
        around = {2**power for power in range(max(0, needed_bits - 3), needed_bits + 1)} if needed_bits else set()
        rows = [(size, *self.choose(size)) for size in sorted({*HOST_BYTES, *around})]
        return [dict(zip(("memory_bytes", "num_workers", "batch_size"), row, strict=True)) for row in rows]


def measure_thesis(session: Session, question: LoadingQuestion) -> None:
    """Ask for the two ratios, then run what they choose; the answers lie in the session's logbook."""
    for share, size in enumerate(SIZES):
        session.progress(f"batch of {size}", 0.2 + 0.3 * share)
        for request in _fetching_and_stepping(question, size):
            ask_comparison(session, request)
    num_workers, batch_size = read_thesis(session.records, question).choose(question.available_bytes)
    needed = f"By the thesis' rule {num_workers} workers are needed"
    if num_workers > question.most_workers:
        raise DoesNotFit(f"{needed}, and a job may have {question.most_workers} on this machine")
    if batch_size < 1:
        free = format_bytes(question.available_bytes)
        raise DoesNotFit(f"{needed}, and {free} of host memory do not hold one sample for each")
    session.progress(f"{num_workers} workers at a batch of {batch_size:,}", 0.8)
    chosen = replace(question, batch_size=batch_size)
    ask_comparison(session, chosen.comparison("step", (INLINE,)))
    (ran,) = ask_comparison(session, chosen.comparison("together", (LoaderSettings(num_workers=num_workers),))).lanes
    if ran.outcome != "measured":
        raise DoesNotFit(f"{needed} at a batch of {batch_size:,}, and they could not run: {ran.reason}")


def read_thesis(records: Records, question: LoadingQuestion) -> ThesisRule:
    """The rule with what was measured for it."""
    ran = {entry.request: entry.result for entry in records.entries if isinstance(entry.request, CompareLoaders)}
    if any(request not in ran for size in SIZES for request in _fetching_and_stepping(question, size)):
        raise NothingMeasured("The thesis' ratios were not measured. legroom loading --rule thesis measures them")
    seconds = [[ran[one].lanes[0].median_seconds for one in _fetching_and_stepping(question, size)] for size in SIZES]
    return ThesisRule(
        ratios=tuple(fetching / stepping for fetching, stepping in seconds),
        num_devices=question.num_devices,
        sample_bytes=records.description().sample_bytes[2],
        largest_batch=question.largest_batch or question.batch_size,
    )


def _fetching_and_stepping(question: LoadingQuestion, batch_size: int) -> list[CompareLoaders]:
    sized, words = replace(question, batch_size=batch_size), {"num_rounds": 1, "num_batches": NUM_ITERATIONS}
    return [sized.comparison("load", (INLINE,), **words), sized.comparison("step", (INLINE,), **words)]


def told_by_thesis(answer: LoadingAnswer, rule: ThesisRule, question: LoadingQuestion) -> LoadingAnswer:
    """The answer about its W and B, with its own reasons, and what W and B would be on other hosts."""
    shown = " and ".join(f"{ratio:.2f} at a batch of {size}" for ratio, size in zip(rule.ratios, SIZES, strict=True))
    devices = "1 device" if rule.num_devices == 1 else f"{rule.num_devices} devices"
    limits = "the largest that the limit on the batch and host memory allow (eq. 4.13 to 4.17)"
    because = {"num_workers": f"fetching takes {shown} times as long as a step, on {devices}", "batch_size": limits}
    assumed = (
        f"No largest batch was named, so the job's own {rule.largest_batch:,} stands for it; legroom memory finds it"
    )
    return replace(
        answer,
        rule="thesis",
        notes=[*answer.notes, *([] if question.largest_batch else [assumed])],
        not_measured=[*answer.not_measured, "other numbers of workers: the rule tries none"],
        recommendations=[
            Recommendation(name=name, value=getattr(answer, name), range=None, because=why, evidence=["loader_rates"])
            for name, why in because.items()
        ],
        batch_by_memory=rule.by_memory(),
    )
