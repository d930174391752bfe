"""Where a larger batch stops paying: the knee, read off the timings in a logbook and the law through four of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from legroom.environments import environment_text
from legroom.errors import NothingMeasured
from legroom.laws.compute import JOIN, SpeedLaw, knee_of
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.speed.answer import SpeedAnswer
from legroom.questions.speed.batch_sizes import NUM_LAW_SIZES, choose_sizes, grid
from legroom.questions.speed.clocks import fit_steps
from legroom.questions.speed.evidence import Seen, Tried, gather
from legroom.questions.speed.records import SpeedQuestion, StepTime, StepTimes
from legroom.questions.speed.step_runs import NUM_CONFIRMED, timed_knee, worth_naming
from legroom.questions.speed.words import (
    compare,
    host_note,
    law_note,
    noise_note,
    odd_sizes_note,
    padding_note,
    setting_notes,
    throttle_note,
)

WORST_ERROR = 0.3
"""A law that misses a size it has not seen by more than this share is not told."""


def advise_speed(records: Records, question: SpeedQuestion, largest_because: str, notes: Sequence[str]) -> SpeedAnswer:
    """The answer that the logbook's entries hold."""
    description = records.description()
    seen = gather(records, question)
    law, held_out = law_of(seen.points)
    refused = max(map(abs, held_out), default=0.0) > WORST_ERROR
    steps = grid(seen.points[0].batch_size, seen.points[-1].batch_size)
    sizes = sorted({*steps, *_sizes(seen.points)})
    best = max(seen.points, key=lambda point: point.samples_per_second)
    baseline = dict(description.baseline)
    knee, span = _knee(question, seen.points, {*question.batch_sizes, baseline["batch_size"]})
    return SpeedAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[
            *records.notes,
            *description.notes,
            *notes,
            *compare(seen.points, knee, baseline["batch_size"], description.num_samples),
            *law_note(law, held_out, refused=refused),
            *host_note(seen.points, law),
            *setting_notes(seen.points, seen.tried),
            *odd_sizes_note(seen.points),
            *padding_note(seen.padding, law, baseline["batch_size"]),
            *noise_note(seen.points, span),
            *seen.device_notes,
            *throttle_note(seen.points),
            *seen.refused,
        ],
        not_measured=[*seen.times.not_measured, *_not_counted(seen.times), "loading of samples: batches lay ready"],
        recommendations=[_recommend(question, knee, span, best), *_recommend_environment(seen.tried, knee)],
        device=question.device,
        precision=question.precision,
        rule=question.rule,
        share=question.share,
        knee_batch_size=knee,
        range=span,
        best_batch_size=best.batch_size,
        best_samples_per_second=best.samples_per_second,
        largest_batch_size=seen.points[-1].batch_size,
        largest_because=largest_because,
        points=[_point(point, seen, None if refused else law) for point in seen.points],
        predictions=[] if refused else [_prediction(law, size) for size in sizes],
        law={**_law_words(law, held_out), "refused": refused},
        flops_per_sample=seen.times.flops_per_sample or None,
        peak_flops_per_second=seen.peak,
        kept_memory=[_kept(point) for tried in seen.tried if tried.request.keeps_memory for point in tried.points],
        settings_tried=[_setting(tried) for tried in seen.tried],
        padding=None if seen.padding is None else asdict(seen.padding),
        num_samples=description.num_samples,
        settings={**baseline, "batch_size": knee, "precision": question.precision},
        baseline=baseline,
    )


def law_of(points: Sequence[StepTime]) -> tuple[SpeedLaw, list[float]]:
    """The law through at most four of the sizes, and its relative errors at the others."""
    seconds = {point.batch_size: point.median_seconds for point in points}
    chosen = choose_sizes(_plain(list(seconds)), lambda size: seconds[size])
    law = fit_steps([point for point in points if point.batch_size in chosen])
    errors = [law.seconds(size) / seconds[size] - 1 for size in seconds if size not in chosen]
    doubt = max([law.doubt, *map(abs, errors), *(point.spread for point in points)])
    return replace(law, doubt=doubt), errors


def _plain(sizes: Sequence[int]) -> Sequence[int]:
    """Sizes of the grid; those beside powers of two may run by other kernels."""
    plain = [size for size in sizes if size in grid(sizes[0], sizes[-1])]
    return plain if len(plain) >= NUM_LAW_SIZES else sizes


def _knee(question: SpeedQuestion, points: Sequence[StepTime], own: Collection[int]) -> tuple[int, tuple[int, int]]:
    if question.rule == "utilisation":
        return _busy_enough(question, worth_naming(points, own))
    return timed_knee(points, own, question.share)


def _busy_enough(question: SpeedQuestion, points: Sequence[StepTime]) -> tuple[int, tuple[int, int]]:
    """The smallest size timed that keeps the device within the share of the busiest it was."""
    shares = {p.batch_size: p.load.utilisation for p in points if p.load.utilisation is not None}
    if not shares:
        raise NothingMeasured(
            "The rule utilisation needs the device's utilisation, and it could not be read here. "
            "The timings are kept: ask again with --rule throughput --resume"
        )
    knee = knee_of(lambda size: shares[size], sorted(shares), question.share)
    smaller = [size for size in shares if size < knee]
    return knee, (max(smaller, default=knee), knee)


def _recommend(question: SpeedQuestion, knee: int, span: tuple[int, int], best: StepTime) -> Recommendation:
    what = "samples/s" if question.rule == "throughput" else "device utilisation"
    because = f"the smallest batch within {question.share:.0%} of the best {what}"
    if question.rule == "throughput":
        because += f", {best.samples_per_second:,.0f} at {best.batch_size:,}"
    return Recommendation(name="knee_batch_size", value=knee, range=span, because=because, evidence=["step_times"])


def _recommend_environment(tried: Sequence[Tried], knee: int) -> list[Recommendation]:
    """The variables that gain most at the knee, where any gain there."""
    gains = [one for one in tried if knee in one.gains]
    if not gains:
        return []
    best = max(gains, key=lambda one: one.gains[knee])
    because = f"{best.gains[knee]:.2f} times the samples/s at {knee:,}, in each of {NUM_CONFIRMED} processes"
    value = environment_text(best.request.environment)
    return [Recommendation(name="environment", value=value, range=None, because=because, evidence=["step_times"])]


def _setting(tried: Tried) -> dict[str, Any]:
    points = [_kept(point) | {"gain": tried.gains.get(point.batch_size)} for point in tried.points]
    return {"environment": environment_text(tried.request.environment), "points": points}


def _point(point: StepTime, seen: Seen, law: SpeedLaw | None) -> dict[str, Any]:
    achieved = seen.times.flops_per_sample * point.samples_per_second
    load: Mapping[str, Any] = asdict(point.load)
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
        **load,
        "shares": dict(point.shares),
        "peak_bytes": point.peak_bytes,
        "achieved_flops_per_second": achieved or None,
        "peak_share": achieved / seen.peak if achieved and seen.peak else None,
        "predicted_seconds": law.seconds(point.batch_size) if law else None,
        "in_law": law is not None and point.batch_size in law.sizes,
    }


def _kept(point: StepTime) -> dict[str, Any]:
    names = ("batch_size", "median_seconds", "interval", "samples_per_second", "system_share", "peak_bytes")
    return {name: getattr(point, name) for name in names}


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


def _sizes(points: Sequence[StepTime]) -> list[int]:
    return [point.batch_size for point in points]
