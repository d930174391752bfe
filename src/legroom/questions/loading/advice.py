"""How many workers load the data: what the races showed, in numbers to use and sentences to read."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from legroom.laws.loading import ENOUGH, WORKER_BYTES, LoaderLaw, time_shares
from legroom.logbook import Records
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.evidence import Evidence, evidence_of, law_of, most_workers
from legroom.questions.loading.records import Lane, LaneRate, LoadingQuestion
from legroom.questions.loading.words import loading_not_measured, loading_notes, loading_recommendations

TABLE_FACTORS = (1, 2, 4, 8, 16)
"""Batches of the memory table, as multiples of the batch asked for."""


def advise_loading(records: Records, question: LoadingQuestion) -> LoadingAnswer:
    """The answer from what the logbook holds."""
    description = records.description()
    seen = evidence_of(records.entries, question)
    chosen, law = seen.chosen, law_of(seen, question)
    rate = seen.rates[chosen]
    shares, bound_by = _shares(seen, rate)
    is_fed = rate >= ENOUGH * seen.eats
    parallel = chosen.num_workers > 0
    worker_bytes = max(one.worker_private_bytes for one in [*seen.load.values(), *seen.together]) or WORKER_BYTES
    baseline = dict(description.baseline)
    changed = {
        "num_workers": chosen.num_workers,
        "prefetch_factor": chosen.prefetch_factor,
        "precision": question.precision,
    }
    close = [lane.num_workers for lane, other in seen.rates.items() if other >= 0.95 * max(seen.rates.values())]
    return LoadingAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*description.notes, *records.notes, *loading_notes(seen, question)],
        not_measured=loading_not_measured(seen, question),
        recommendations=loading_recommendations(seen, (min(close), max(close))),
        device=question.device,
        batch_size=question.batch_size,
        num_devices=question.num_devices,
        num_workers=chosen.num_workers,
        prefetch_factor=chosen.prefetch_factor,
        pin_memory=question.device != "cpu" and chosen.pin_memory,
        persistent_workers=parallel,
        range=(min(close), max(close)),
        samples_per_second=_all_devices(seen, law, question),
        device_samples_per_second=seen.eats,
        is_fed=is_fed,
        bound_by=bound_by,
        shares=shares,
        max_workers_by_memory=most_workers(seen, question, worker_bytes, 1, chosen.prefetch_factor),
        workers_by_memory=[
            {
                "batch_size": factor * question.batch_size,
                "max_workers": most_workers(seen, question, worker_bytes, factor, chosen.prefetch_factor),
            }
            for factor in TABLE_FACTORS
        ],
        worker_bytes=worker_bytes,
        shared_bytes=chosen.num_workers * chosen.prefetch_factor * seen.step.batch_bytes,
        batch_bytes=seen.step.batch_bytes,
        batch_seconds=_batch_seconds(seen),
        read_bytes_per_sample=seen.cold.bytes_per_sample if seen.cold and not seen.cold.not_measured else None,
        storage_bytes_per_second=seen.cold.bytes_per_second if seen.cold and not seen.cold.not_measured else None,
        law={} if law is None else {name: value for name, value in asdict(law).items() if math.isfinite(value)},
        points=[_point(lane, rate, seen.together) for lane, rate in seen.rates.items()],
        num_samples=description.num_samples,
        settings={**baseline, **changed, "batch_size": question.batch_size, "num_devices": question.num_devices},
        baseline=baseline,
    )


def _all_devices(seen: Evidence, law: LoaderLaw | None, question: LoadingQuestion) -> float:
    """The rate of one device was measured; that of several is bounded by what all loaders together deliver."""
    chosen, num = seen.chosen, question.num_devices
    each = seen.rates[chosen]
    if num == 1 or law is None or chosen.num_workers == 0:
        return num * each
    return min(num * each, law.samples_per_second(num * chosen.num_workers))


def _shares(seen: Evidence, rate: float) -> tuple[dict[str, float], str]:
    """Where a batch's time goes, and the largest part."""
    warm = seen.step.samples_per_batch / rate
    storage = 0.0
    if seen.cold is not None and seen.cold.bytes_per_sample > 0:
        storage = max(0.0, seen.cold.cold_batch_seconds - seen.cold.warm_batch_seconds)
    shares = time_shares(seen.step_seconds, warm, max(warm, seen.step_seconds) + storage)
    return shares, max(shares, key=lambda name: shares[name])


def _batch_seconds(seen: Evidence) -> dict[str, float]:
    inline, one = seen.load.get(0), seen.load.get(1)
    parts = {"step": seen.step_seconds, "copy": seen.step.copy_seconds}
    if inline is not None:
        parts["preparation"] = inline.median_seconds
    if one is not None:
        parts["one_worker"] = one.median_seconds
        parts["transfer"] = max(0.0, one.median_seconds - (inline.median_seconds if inline else 0.0))
    return parts


def _point(lane: Lane, rate: float, together: Sequence[LaneRate]) -> dict[str, Any]:
    """All races of one setting; the rate is the joined one, by which it was chosen or not."""
    races = [one for one in together if one.lane == lane]
    seconds = races[-1].samples_per_batch / rate
    return {
        **asdict(lane),
        "samples_per_second": rate,
        "median_seconds": seconds,
        "spread": statistics.median(one.spread for one in races),
        "num_repeats": sum(len(one.batch_seconds) for one in races),
        "wait_seconds": seconds * statistics.median(one.wait_seconds / one.median_seconds for one in races),
    }
