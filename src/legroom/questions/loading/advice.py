"""How many workers load the data: what the comparisons showed, in numbers to use and sentences to read."""

import math
import statistics
from dataclasses import asdict, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.loading import ENOUGH, time_shares
from legroom.logbook import Records
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.evidence import Evidence, read_evidence
from legroom.questions.loading.records import LoaderSettings, LoadingQuestion
from legroom.questions.loading.thesis import read_thesis, told_by_thesis
from legroom.questions.loading.wording import notes_on, recommendations_from, what_is_not_measured

TABLE_FACTORS = (1, 2, 4, 8, 16)
"""Batches of the memory table, as multiples of the batch asked for."""
CLOSE = 0.95
"""Share of the best throughput that is close to it."""


def advise(records: Records, question: LoadingQuestion) -> LoadingAnswer:
    """The answer from what the logbook holds."""
    if question.rule != "thesis":
        return _answer(records, question)
    rule = read_thesis(records, question)
    chosen = replace(question, batch_size=rule.choose(question.available_bytes)[1])
    return told_by_thesis(_answer(records, chosen), rule, question)


def _answer(records: Records, question: LoadingQuestion) -> LoadingAnswer:
    description, seen = records.description(), read_evidence(records, question)
    if not seen.together:
        raise NothingMeasured("No loader was run with the step. legroom loading runs some")
    chosen, law, cold = seen.chosen, seen.law, seen.cold
    throughput, baseline, shares = seen.throughputs[chosen], dict(description.baseline), _shares(seen)
    close = [one.num_workers for one, ranked in seen.ranked.items() if ranked >= CLOSE * max(seen.ranked.values())]
    span = min(close), max(close)
    by_memory = [
        {"batch_size": factor * question.batch_size, "max_workers": _most_workers(seen, factor)}
        for factor in TABLE_FACTORS
    ]
    return LoadingAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*description.notes, *records.notes, *notes_on(seen)],
        not_measured=what_is_not_measured(seen),
        recommendations=recommendations_from(seen, span),
        device=question.device,
        batch_size=question.batch_size,
        num_devices=question.num_devices,
        num_workers=chosen.num_workers,
        prefetch_factor=chosen.prefetch_factor,
        pin_memory=question.device != "cpu" and chosen.pin_memory,
        persistent_workers=chosen.num_workers > 0,
        range=span,
        samples_per_second=_of_all_devices(seen),
        device_samples_per_second=seen.device_throughput,
        is_fed=throughput >= ENOUGH * seen.device_throughput,
        bound_by=max(shares, key=lambda name: shares[name]),
        shares=shares,
        max_workers_by_memory=by_memory[0]["max_workers"],
        workers_by_memory=by_memory,
        worker_bytes=seen.worker_bytes,
        shared_bytes=chosen.num_workers * chosen.prefetch_factor * seen.step.batch_bytes,
        batch_bytes=seen.step.batch_bytes,
        batch_seconds=_batch_seconds(seen),
        read_bytes_per_sample=cold.bytes_per_sample if cold and not cold.not_measured else None,
        storage_bytes_per_second=cold.bytes_per_second if cold and not cold.not_measured else None,
        law={} if law is None else {name: value for name, value in asdict(law).items() if math.isfinite(value)},
        points=[_point(settings, seen) for settings in seen.throughputs],
        num_samples=description.num_samples,
        settings={
            **baseline,
            "num_workers": chosen.num_workers,
            "prefetch_factor": chosen.prefetch_factor,
            "precision": question.precision,
            "batch_size": question.batch_size,
            "num_devices": question.num_devices,
        },
        baseline=baseline,
    )


def _most_workers(seen: Evidence, batch_factor: int) -> int:
    return seen.most_in_memory(batch_factor=batch_factor, prefetch_factor=seen.chosen.prefetch_factor)


def _of_all_devices(seen: Evidence) -> float:
    """The throughput of one device was measured; that of several is bounded by what all loaders together deliver."""
    num, num_workers, law = seen.question.num_devices, seen.chosen.num_workers, seen.law
    each = seen.throughputs[seen.chosen]
    if num == 1 or law is None or num_workers == 0:
        return num * each
    return min(num * each, law.samples_per_second(num * num_workers))


def _step_seconds(seen: Evidence) -> float:
    """Of a batch that already lies on the device."""
    return seen.step.samples_per_batch / seen.device_throughput


def _shares(seen: Evidence) -> dict[str, float]:
    """Where a batch's time goes."""
    warm, cold, storage = seen.step.samples_per_batch / seen.throughputs[seen.chosen], seen.cold, 0.0
    if cold is not None and cold.bytes_per_sample > 0:
        storage = max(0.0, cold.cold_batch_seconds - cold.warm_batch_seconds)
    return time_shares(_step_seconds(seen), warm, max(warm, _step_seconds(seen)) + storage)


def _batch_seconds(seen: Evidence) -> dict[str, float]:
    inline, one = seen.alone.get(0), seen.alone.get(1)
    parts = {"step": _step_seconds(seen), "copy": seen.step.copy_seconds}
    if inline is not None:
        parts["preparation"] = inline.median_seconds
    if one is not None:
        parts["one_worker"] = one.median_seconds
        parts["transfer"] = max(0.0, one.median_seconds - (inline.median_seconds if inline else 0.0))
    return parts


def _point(settings: LoaderSettings, seen: Evidence) -> dict[str, Any]:
    """All turns of one setting; its throughput is the one told, by which it was chosen or not."""
    ran = [one for one in seen.together if one.lane == settings]
    seconds = ran[-1].samples_per_batch / seen.throughputs[settings]
    return {
        **asdict(settings),
        "samples_per_second": seen.throughputs[settings],
        "median_seconds": seconds,
        "spread": statistics.median(one.spread for one in ran),
        "num_repeats": sum(len(one.batch_seconds) for one in ran),
        "wait_seconds": seconds * statistics.median(one.wait_seconds / one.median_seconds for one in ran),
    }
