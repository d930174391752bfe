"""Every number of devices as a point: measured where it was run, forecast elsewhere, by both ways to scale."""

from typing import Any

from legroom.laws.communication import exposed_share
from legroom.laws.time_to_target import money
from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.forecast import NUM_DEVICES, Forecaster, Step, batch_of, speedup_of
from legroom.questions.devices.records import DevicesQuestion, RankSteps, Scaling

LEAST_SHARE = 1
"""Samples of a device, at least, in strong scaling."""


def all_points(evidence: Evidence, question: DevicesQuestion, forecaster: Forecaster | None) -> list[dict[str, Any]]:
    """The points, from one device on; without a link there is one alone."""
    numbers = sorted({*NUM_DEVICES, question.num_measured, min(question.num_most, NUM_DEVICES[-1])} - {1})
    found = []
    for scaling in question.scalings:
        found.append(_one(evidence, question, scaling))
        for num in numbers:
            if forecaster is not None and batch_of(scaling, question.batch_size, num) >= LEAST_SHARE:
                found.append(_point(evidence, question, forecaster, scaling, num))
    return found


def _one(evidence: Evidence, question: DevicesQuestion, scaling: Scaling) -> dict[str, Any]:
    seconds, spread = evidence.one_seconds(question.batch_size), evidence.facts.spread
    return {
        **_common(question, scaling, 1, question.batch_size, seconds, seconds),
        "exposed_seconds": 0.0,
        "compute_seconds": seconds,
        "communication_seconds": 0.0,
        "overlap": None,
        "predicted": question.largest_batch is not None,
        "range": [seconds / spread, seconds * spread],
        "utilisation": [] if evidence.facts.utilisation is None else [evidence.facts.utilisation],
    }


def _point(
    evidence: Evidence, question: DevicesQuestion, forecaster: Forecaster, scaling: Scaling, num: int
) -> dict[str, Any]:
    size = batch_of(scaling, question.batch_size, num)
    step, one = forecaster.step(num, size), evidence.one_seconds(question.batch_size)
    # A link that was named is another than the one here, so what was run here is no point of it.
    steps = evidence.steps(num, round(size)) if size == round(size) and question.link_name is None else None
    forecast = {
        "algorithm": step.algorithm,
        "exposed_by": dict(step.exposed_by),
        "forecast_seconds": step.seconds,
        "forecast_range": list(forecaster.span(num, size)),
        "num_passes": evidence.num_passes(size),
        "forecast_exposed_seconds": step.exposed,
    }
    if steps is not None:
        return {
            **_common(question, scaling, num, size, one, steps.sync_seconds),
            **forecast,
            **_measured(steps, step.beside, scaling, num, one),
        }
    return {
        **_common(question, scaling, num, size, one, step.seconds),
        **forecast,
        **_forecast(step, forecaster, num, size),
    }


def _common(
    question: DevicesQuestion, scaling: Scaling, num: int, size: float, one: float, seconds: float
) -> dict[str, Any]:
    speedup = speedup_of(scaling, one, seconds, num)
    # An epoch of less than one update is none that a run could have.
    samples = question.num_samples
    epoch = None if samples is None or size * num > samples else samples / (size * num) * seconds
    return {
        "num_devices": num,
        "scaling": scaling,
        "batch_size": size,
        "global_batch": size * num,
        "step_seconds": seconds,
        "speedup": speedup,
        "efficiency": speedup / num,
        "samples_per_second": size * num / seconds,
        "epoch_seconds": epoch,
        "epoch_cost": None if epoch is None or question.price is None else money(epoch, num, question.price),
    }


def _measured(steps: RankSteps, beside: float, scaling: Scaling, num: int, one_seconds: float) -> dict[str, Any]:
    """`beside`: seconds of copies and of the buffers' broadcast, which sync costs besides the buckets."""
    exposed, total = steps.exposed_in_step, steps.buckets_seconds + beside
    return {
        "exposed_seconds": exposed,
        "exposed_range": list(steps.exposed_range),
        "compute_seconds": steps.sync_seconds - exposed,
        "buckets_seconds": steps.buckets_seconds,
        "communication_seconds": total,
        "overlap": 1 - min(1.0, exposed_share(exposed, total)),
        "copies_seconds": steps.copies_seconds,
        "no_sync_seconds": steps.no_sync_seconds,
        # T_N - T_1 / N over an epoch, as some define it, in seconds a step: what contention costs is in it too.
        "difference_seconds": steps.sync_seconds - (one_seconds if scaling == "weak" else one_seconds / num),
        "predicted": False,
        "range": list(steps.sync_range),
        "utilisation": list(steps.utilisation),
    }


def _forecast(step: Step, forecaster: Forecaster, num: int, size: float) -> dict[str, Any]:
    return {
        "exposed_seconds": step.exposed,
        "compute_seconds": step.compute,
        "communication_seconds": step.total,
        "overlap": 1 - min(1.0, exposed_share(step.exposed, step.total)),
        "predicted": True,
        "range": list(forecaster.span(num, size)),
        "utilisation": [],
    }
