"""Where a larger batch stops paying: the answer to a question from the timings in a logbook."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from legroom.environments import environment_text
from legroom.laws.compute import JOIN, SpeedLaw
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.speed import notes
from legroom.questions.speed.answer import EnvironmentAnswer, SpeedAnswer
from legroom.questions.speed.batch_sizes import grid
from legroom.questions.speed.environment import Turns
from legroom.questions.speed.evidence import NUM_CONFIRMED, Evidence, Tried, first_looks, gather
from legroom.questions.speed.records import SpeedQuestion, StepTime, StepTimes
from legroom.questions.speed.size_range import read_range
from legroom.questions.speed.step_law import law_of

CLOSELY = "steps in detail: each size was looked at once; legroom speed times them closely"
WORST_ERROR = 0.3
"""A law that misses a size it has not seen by more than this share is not told."""


def advise(records: Records, question: SpeedQuestion) -> SpeedAnswer:
    """The answer that the logbook's entries hold."""
    description, evidence = records.description(), gather(records, question)
    found = read_range(first_looks(records, question), question)
    law, held_out = law_of(evidence.points)
    told = law if max(map(abs, held_out), default=0.0) <= WORST_ERROR else None
    sizes = [point.batch_size for point in evidence.points]
    best = max(evidence.points, key=lambda point: point.samples_per_second)
    baseline = dict(description.baseline)
    return SpeedAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[
            *records.notes,
            *description.notes,
            *found.notes,
            *notes.compare(evidence.points, evidence.knee, baseline["batch_size"], description.num_samples),
            *(notes.refused_law(law, held_out) if told is None else ()),
            *_notes(evidence, law, baseline["batch_size"], question),
        ],
        not_measured=[
            *evidence.times.not_measured,
            *([CLOSELY] if question.quick else _not_counted(evidence.times)),
            "loading of samples: batches lay ready",
        ],
        recommendations=[_recommend(question, evidence, best), *_recommend_environment(evidence)],
        device=question.device,
        precision=question.precision,
        rule=question.rule,
        quick=question.quick,
        share=question.share,
        batch_sizes=list(question.batch_sizes),
        knee_batch_size=evidence.knee,
        range=evidence.span,
        best_batch_size=best.batch_size,
        best_samples_per_second=best.samples_per_second,
        largest_batch_size=sizes[-1],
        largest_because=found.because,
        points=[_point(point, evidence, told) for point in evidence.points],
        predictions=[_prediction(told, size) for size in sorted({*grid(sizes[0], sizes[-1]), *sizes})] if told else [],
        law={**_law_words(law, held_out), "refused": told is None},
        flops_per_sample=evidence.times.flops_per_sample or None,
        peak_flops_per_second=evidence.peak,
        kept_memory=[_again(point) for one in evidence.tried if one.request.keeps_memory for point in one.points],
        settings_tried=[_setting(tried) for tried in evidence.tried],
        padding=None if evidence.padding is None else asdict(evidence.padding),
        num_samples=description.num_samples,
        settings={**baseline, "batch_size": evidence.knee, "precision": question.precision},
        baseline=baseline,
    )


def _notes(evidence: Evidence, law: SpeedLaw, own_size: int, question: SpeedQuestion) -> list[str]:
    """What the timings say of the device, of its settings and of themselves."""
    return [
        *notes.launches(evidence.points, law),
        *notes.settings(evidence),
        *notes.odd_sizes(evidence.points),
        *notes.padding(evidence.padding, law, own_size),
        *(() if question.quick else notes.noise(evidence)),
        *evidence.device_notes,
        *notes.throttling(evidence.points),
        *notes.losses(evidence.points),
        *evidence.refused,
    ]


def _recommend(question: SpeedQuestion, evidence: Evidence, best: StepTime) -> Recommendation:
    what = "samples/s" if question.rule == "throughput" else "device utilisation"
    because = f"the smallest batch within {question.share:.0%} of the best {what}"
    if question.rule == "throughput":
        because += f", {best.samples_per_second:,.0f} at {best.batch_size:,}"
    return Recommendation(
        name="knee_batch_size", value=evidence.knee, range=evidence.span, because=because, evidence=["step_times"]
    )


def _recommend_environment(evidence: Evidence) -> Iterator[Recommendation]:
    """The variables that gain most at the knee, where any gain there."""
    knee = evidence.knee
    gains = [tried for tried in evidence.tried if knee in tried.gains]
    if gains:
        best = max(gains, key=lambda tried: tried.gains[knee])
        because = f"{best.gains[knee]:.2f} times the samples/s at {knee:,}, in each of {NUM_CONFIRMED} processes"
        value = environment_text(best.request.environment)
        yield Recommendation(name="environment", value=value, range=None, because=because, evidence=["step_times"])


def _setting(tried: Tried) -> dict[str, Any]:
    points = [_again(point) | {"gain": tried.gains.get(point.batch_size)} for point in tried.points]
    return {"environment": environment_text(tried.request.environment), "points": points}


def _again(point: StepTime) -> dict[str, Any]:
    names = ("batch_size", "median_seconds", "interval", "samples_per_second", "system_share", "peak_bytes")
    return {name: getattr(point, name) for name in names}


def _point(point: StepTime, evidence: Evidence, law: SpeedLaw | None) -> dict[str, Any]:
    achieved = evidence.times.flops_per_sample * point.samples_per_second
    return {
        "batch_size": point.batch_size,
        "median_seconds": point.median_seconds,
        "interval": point.interval,
        "spread": point.spread,
        "device_seconds": point.device_seconds or None,
        "host_seconds": point.host_seconds or None,
        "system_share": point.system_share,
        "num_rounds": point.num_rounds,
        "num_repeats": point.num_repeats,
        "samples_per_second": point.samples_per_second,
        **asdict(point.load),
        "shares": dict(point.shares),
        "peak_bytes": point.peak_bytes,
        "achieved_flops_per_second": achieved or None,
        "peak_share": achieved / evidence.peak if achieved and evidence.peak else None,
        "predicted_seconds": law.seconds(point.batch_size) if law else None,
        "in_law": law is not None and point.batch_size in law.sizes,
    }


def _prediction(law: SpeedLaw, size: int) -> dict[str, Any]:
    return {
        "batch_size": size,
        "seconds": law.seconds(size),
        "interval": law.interval(size),
        "samples_per_second": law.samples_per_second(size),
    }


def _law_words(law: SpeedLaw, held_out: Sequence[float]) -> dict[str, Any]:
    work = "floor_seconds * (1 + (B / bend)^sharpness)^(1 / sharpness) * exp(correction(ln B))"
    return {
        **asdict(law),
        "formula": f"(host_seconds^{JOIN:.0f} + ({work})^{JOIN:.0f})^(1 / {JOIN:.0f})" if law.host_seconds else work,
        "num_held_out": len(held_out),
        "mean_error": sum(map(abs, held_out)) / len(held_out) if held_out else None,
        "worst_error": max(map(abs, held_out)) if held_out else None,
    }


def _not_counted(times: StepTimes) -> list[str]:
    if not times.flops_per_sample:
        return ["FLOP/s: the operations of this step could not be counted"]
    if times.uncounted:
        names = ", ".join(times.uncounted)
        return [f"the operations of {names}: torch has no formula for them, so FLOP/s are a lower bound"]
    return []


def advise_environment(
    records: Records, question: SpeedQuestion, batch_size: int, turns: Sequence[Turns]
) -> EnvironmentAnswer:
    """The variables that are surely faster there, the best of them."""
    nothing = Turns(variables={}, ratios=[1.0])
    best = max([each for each in turns if each.pays], key=lambda each: each.speedup, default=nothing)
    return EnvironmentAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        device=question.device,
        precision=question.precision,
        batch_size=batch_size,
        variables={name: str(value) for name, value in best.variables.items()},
        speedup=best.speedup,
        speedup_range=(min(best.ratios), max(best.ratios)),
        tried=[{"environment": environment_text(each.variables), "ratios": each.ratios} for each in turns],
    )
