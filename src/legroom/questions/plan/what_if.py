"""The plan's factors as the page's controls take them, and what stands in for those that nobody measured."""

import math
from collections.abc import Mapping
from typing import Any, cast

from legroom.laws import what_if
from legroom.laws.time_to_target import steps_to_target, update_size
from legroom.laws.what_if import Factors
from legroom.questions.plan.answer import PlanAnswer
from legroom.reports.figures import WhatIf
from legroom.reports.numbers import target_words
from legroom.reports.what_if import doublings
from legroom.units import parse_bytes

FIGURE = "plan-time"
BEYOND = 2
"""Times the largest batch timed: up to there its proportion is likely to go on."""
FAR_BELOW = 16
"""Batches so many times smaller than what will run take so long that they would flatten all others in a figure."""
LINK = 25e9
"""Bytes a second each way, about what PCIe 4.0 moves over 16 lanes."""
ALONE: Mapping[str, Any] = {"numbers": [1], "slowdowns": [1.0], "extras": [0.0], "on_one_machine": 0}
"""Where one device alone was looked at."""
NO_LIMIT = parse_bytes("1TiB")
OWN_RUN = (
    "The job's own settings stay, and their run is what is shown. At other batches nobody ran it: its updates follow "
    "from the critical batch size, as if its rate were moved as well."
)


def what_if_of(answer: PlanAnswer) -> WhatIf | None:
    """The controls; None where the plan has no forecast to change."""
    given = answer.factors
    if not given.get("sizes") or not given.get("least_steps"):
        return None
    stays = answer.num_steps is None and answer.predicted_seconds is not None and given.get("own")
    factors = _of_own_run(answer, _factors(given)) if stays else _factors(given)
    own = int(factors["batch_size"] * factors["num_passes"])
    most = given.get("num_samples") or math.inf  # an update takes no more samples than there are
    least = max(min(given["sizes"]), own // FAR_BELOW)
    return WhatIf(
        factors=factors,
        candidates=doublings(least, min(BEYOND * max(given["sizes"]), most), own),
        target=target_words(given.get("target", "")),
        baseline_seconds=given.get("baseline_seconds"),
        guessed={**dict(_guessed(given)), **({"batch_size": OWN_RUN} if stays else {})},
        figure=FIGURE,
        mark="found, not recommended" if answer.kept and not stays else "as recommended",
    )


def _factors(given: Mapping[str, Any]) -> Factors:
    size, critical = update_size(given["batch_size"], given["num_passes"], given["num_devices"]), "critical_batch_size"
    knows_memory = given["fixed_bytes"] is not None
    found: dict[str, Any] = {name: given[name] for name in Factors.__annotations__ if name in given}
    found |= _target(given) | {
        "num_steps": steps_to_target(size, given["least_steps"], given[critical] or 0.0),
        "known_size": size,
        "fixed_bytes": given["fixed_bytes"] or 0.0,
        "bytes_per_sample": max(1.0, given["bytes_per_sample"]) if knows_memory else 1.0,
        "device_bytes": given["device_bytes"] if knows_memory else NO_LIMIT,
        "worker_seconds": _worker_seconds(given),
        "price_per_hour": given.get("price_per_hour") or 0.0,
        "parameter_bytes": given.get("parameter_bytes") or 0.0,
        "latency": given.get("latency") or 0.0,
        "bandwidth": given.get("bandwidth") or LINK,
        **{name: given.get(name) or alone for name, alone in ALONE.items()},
    }
    known = {name: 0.0 if value is None else value for name, value in found.items()}
    return cast("Factors", {**known, critical: found[critical]})


def _of_own_run(answer: PlanAnswer, found: Factors) -> Factors:
    """The run of the job's own settings, which stay, with its own pace, updates and range.

    What trials came to at the rate that was found says nothing of other targets at the job's own.
    """
    own = answer.factors["own"]
    assert answer.predicted_seconds is not None
    assert answer.predicted_range is not None
    size = update_size(own["batch_size"], own["num_passes"], 1)
    factors = {**found, **{name: own[name] for name in ("batch_size", "num_passes", "num_steps")}, "known_size": size}
    factors |= {"num_devices": 1, "num_workers": answer.num_workers, "values": [], "updates": []}
    factors |= {name: own[name] for name in ("evaluation", "num_evaluations")}
    factors["update"] = min(found["update"], own["step_seconds"] / 2)
    *parts, _, _ = what_if.step_parts(cast("Factors", factors))
    scale = (own["step_seconds"] - factors["update"]) / sum(parts)
    for name in ("inline_seconds", "worker_seconds", "core_seconds"):
        factors[name] *= scale
    factors["seconds"] = [scale * seconds for seconds in found["seconds"]]
    factors |= {"steps_spread": answer.predicted_range[1] / answer.predicted_seconds, "seconds_spread": 1.0}
    return cast("Factors", factors)


def _target(given: Mapping[str, Any]) -> dict[str, Any]:
    """The target as a number, and what other values take; nothing of these where no curve was kept."""
    value = float((given.get("target") or "").partition("=")[2] or 0.0)
    curve = given.get("curve") or {}
    lists = {name: curve.get(name, []) for name in ("values", "updates")}
    return {"target_value": value, "planned_value": value, **lists}


def _worker_seconds(given: Mapping[str, Any]) -> float:
    """A worker's, or what the training process takes, where the plan has none and nobody looked."""
    guess = given["inline_seconds"] if not given["num_workers"] else 0.0
    return float(given["worker_seconds"] or guess or 0.0)


def _guessed(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A sentence for each factor that nobody measured."""
    found = []
    if given["fixed_bytes"] is None:
        found.append(("device_bytes", "Memory was not measured: every batch is taken to fit; legroom memory tells."))
    if not given["inline_seconds"] and not given["worker_seconds"]:
        found.append(("num_workers", "Loading was not measured and is taken to cost nothing; legroom loading tells."))
    elif not given["worker_seconds"]:
        sentence = "Workers were not measured: each is taken to load as fast as the training process does."
        found.append(("num_workers", f"{sentence} legroom loading tells."))
    if not given.get("bandwidth"):
        sentence = f"No link between devices was measured: {LINK / 1e9:.0f} GB/s stand in for it, what PCIe 4.0 moves."
        found.append(("bandwidth", f"{sentence} legroom devices measures it."))
    return found
