"""The cuts of a model beside data parallelism: rows of the answer, and when one of them pays."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from legroom.questions.devices.choice import PAYS
from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.forecast import Forecaster
from legroom.questions.devices.records import DevicesQuestion
from legroom.questions.devices.splits import Charges, forecast_splits
from legroom.reports.numbers import quantity

SPLIT_NUMBERS = (2, 4, 8, 16, 64)


def split_rows(evidence: Evidence, question: DevicesQuestion, forecaster: Forecaster | None) -> list[dict[str, Any]]:
    """The cuts of one global batch, beside data parallelism; nothing where no link is known, or none was asked for."""
    if forecaster is None or "strong" not in question.scalings:
        return []
    facts, memory, size = evidence.facts, question.memory, question.batch_size
    whole, scale = evidence.at(size), size / max(evidence.alone)
    sample_bytes = memory.get("bytes_per_sample", sum(facts.layer_bytes) / max(evidence.alone))
    rows: list[dict[str, Any]] = []
    for num in SPLIT_NUMBERS:
        if size % num:  # no run has a share of a sample
            continue
        slow = evidence.contention(num, size / num)
        cuts = forecast_splits(
            whole.slowed(slow),
            evidence.at(size / num).slowed(slow),
            num,
            forecaster.link,
            layer_bytes=[round(scale * each) for each in facts.layer_bytes],
            parameter_bytes=facts.parameter_bytes,
            state_bytes=facts.state_bytes,
            activation_bytes=sample_bytes * size,
            budget_bytes=memory.get("budget_bytes"),
            charges=Charges(
                off=forecaster.off,
                stolen=evidence.stolen(question, num),
                copying=forecaster.copying(facts.parameter_bytes, slow),
                missed=forecaster.missed_there(size / num),
            ),
        )
        beside = _beside(evidence, question, forecaster, num)
        is_timed = size / num >= min(evidence.alone)
        rows += [{**asdict(cut), **beside, "is_share_timed": is_timed} for cut in cuts]
    return rows


def _beside(evidence: Evidence, question: DevicesQuestion, forecaster: Forecaster, num: int) -> dict[str, float]:
    """The same update without a cut: by data parallelism, as measured where it was, on one device, and the least."""
    size = question.batch_size
    forecast, one = forecaster.step(num, size / num).seconds, evidence.one_seconds(size)
    steps = evidence.steps(num, size // num) if question.link_name is None else None
    plain = forecast if steps is None else steps.sync_seconds
    return {"data_parallel_seconds": plain, "one_seconds": one, "least_seconds": min(one, plain, forecast)}


def split_notes(rows: Sequence[dict[str, Any]], question: DevicesQuestion) -> list[str]:
    """When a cut of the model pays at the same global batch: by far, since forecasts of cuts hide all that can be.

    Below the batches timed a share is taken to be as long as the smallest, which is no ground to say that a cut pays.
    """
    critical, size = question.critical_batch_size, question.batch_size
    notes = []
    if critical is not None and size > critical:
        notes.append(
            f"The batch of {size:,} is above the critical {critical:,.0f} already: only cuts that keep the global "
            "batch (strong scaling, FSDP, tensor, pipeline) still save time"
        )
    told = [row for row in rows if row["is_share_timed"]]
    faster = [row for row in told if row["fits"] is not False and _gain(row) > PAYS]
    if faster:
        best = max(faster, key=_gain)
        names = ("step_seconds", "data_parallel_seconds", "one_seconds")
        step, plain, one = (quantity(best[name], "seconds") for name in names)
        notes.append(
            f"A cut pays: {best['name']} over {best['num_devices']} devices takes {step} a step of {size:,} samples, "
            f"data parallelism {plain}, one device {one}; a forecast"
        )
    elif told:
        most = max(row["num_devices"] for row in told)
        notes.append(
            f"No cut of the model over up to {most} devices is forecast to be {PAYS} times as fast as data parallelism "
            f"or one device at {size:,} samples an update"
        )
    return notes


def _gain(row: dict[str, Any]) -> float:
    return float(row["least_seconds"] / row["step_seconds"])
