"""What to take: devices, buckets, buffers, rate, each with its reason, and the settings of a run with them."""

from collections.abc import Sequence
from typing import Any

from legroom.laws.communication import BUCKET_CAP_MB
from legroom.laws.rate_scaling import legw
from legroom.questions.base import Recommendation
from legroom.questions.devices.batches import own_recipe
from legroom.questions.devices.choice import NO_MORE, PAYS, Choice
from legroom.questions.devices.evidence import Evidence
from legroom.questions.devices.forecast import SAME
from legroom.questions.devices.records import BackwardTimes, DevicesQuestion
from legroom.questions.devices.wire import buffers_off

EVIDENCE = ["backward_times", "ranks_timed"]


def settings_of(evidence: Evidence, chosen: dict[str, Any], rate: Sequence[Recommendation]) -> dict[str, Any]:
    """What a run of the recommended devices takes."""
    passes = evidence.num_passes(chosen["batch_size"])
    batch = max(1, round(chosen["batch_size"] / passes))
    return {
        "num_devices": chosen["num_devices"],
        "batch_size": batch,
        "accumulation_steps": passes,
        **{item.name: item.value for item in rate},
    }


def recommend_devices(
    chosen: dict[str, Any],
    points: Sequence[dict[str, Any]],
    choice: Choice,
    gain: float | None,
) -> Recommendation:
    """How many, and the range from half as many to twice as many; `gain`: of one process with all cores."""
    num = chosen["num_devices"]
    because = _speedup_words(chosen, gain, choice) if num > 1 else choice.because
    alike = [point["num_devices"] for point in points if point["scaling"] == chosen["scaling"]]
    beside = [each for each in alike if each <= 2 * num and 2 * each >= num]
    return Recommendation(
        name="num_devices", value=num, range=(min(beside), max(beside)), because=because, evidence=list(EVIDENCE)
    )


def _speedup_words(chosen: dict[str, Any], gain: float | None, choice: Choice) -> str:
    how, speedup = "forecast" if chosen["predicted"] else "measured", chosen["speedup"]
    words = [f"{chosen['scaling']} speed-up of {speedup:.3g} ({how})"]
    if gain is not None and gain >= 1:  # below, the cores were busy, and a note says so
        words = [f"{words[0]} over a process with one thread, {speedup / gain:.3g} over one with all cores"]
    if choice.stops:
        words.append(f"from {choice.stops:,} on twice the devices are less than {PAYS} times faster")
    if not choice.stops or choice.because == NO_MORE:
        words.append(choice.because)
    return "; ".join(words)


def recommend_buckets(cap: float | None, caps: dict[float | None, float], num: int) -> list[Recommendation]:
    """The size of buckets, where several were compared."""
    if not caps:
        return []
    least = min(caps.values())
    good = [each or BUCKET_CAP_MB for each, value in caps.items() if value <= SAME * least]
    because = f"steps of {num} devices are forecast within 2 % of the shortest, {least * 1e3:.3g} ms"
    return [
        Recommendation(
            name="bucket_cap_mb", value=cap, range=(min(good), max(good)), because=because, evidence=list(EVIDENCE)
        )
    ]


def recommend_buffers(facts: BackwardTimes) -> Recommendation:
    """Whether to broadcast them."""
    off, because = buffers_off(facts)
    return Recommendation(name="broadcast_buffers", value=not off, range=None, because=because, evidence=EVIDENCE[:1])


def recommend_rate(chosen: dict[str, Any], question: DevicesQuestion) -> list[Recommendation]:
    """Rate and warm-up by LEGW where the global batch is not the job's own; the job's own where it is."""
    own, size, warmup = own_recipe(question), round(chosen["global_batch"]), int(question.settings["warmup_steps"])
    if size == own.batch_size:
        because = "the global batch stays, so the rate and its warm-up stay"
        rate = own.learning_rate
    else:
        scaled = legw(own, size)
        rate = scaled.learning_rate
        because = (
            f"LEGW: the root of {size / own.batch_size:.3g} times the rate, as an update has {size:,} samples and "
            f"the job's own {own.batch_size:,}, and {scaled.warmup_epochs:.3g} epochs of warm-up, which are as many "
            "updates; a rule, not measured. legroom rate measures it"
        )
    return [
        Recommendation(name="learning_rate", value=rate, range=None, because=because),
        Recommendation(name="warmup_steps", value=warmup, range=None, because=because),
    ]
