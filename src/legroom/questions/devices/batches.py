"""What a global batch that grows with the devices does to updates, rate and warm-up."""

from collections.abc import Sequence
from typing import Any

from legroom.laws.rate_scaling import Recipe, legw
from legroom.laws.time_to_target import steps_to_target
from legroom.questions.devices.records import DevicesQuestion


def useful_speedup(point: dict[str, Any], question: DevicesQuestion) -> float:
    """How many times sooner the target is reached: the speed-up, less what a larger global batch wastes.

    Strong scaling keeps the updates. Weak scaling makes N times the samples an update; by the critical batch size
    (`laws.steps`) that many samples save fewer updates than they cost. Where it is unknown, the speed-up stands.
    """
    critical = question.critical_batch_size
    if point["scaling"] == "strong" or critical is None:
        return float(point["speedup"])
    more = steps_to_target(question.batch_size, 1.0, critical) / steps_to_target(point["global_batch"], 1.0, critical)
    return float(point["speedup"] * more / point["num_devices"])


def own_recipe(question: DevicesQuestion) -> Recipe:
    """Rate and warm-up of the job, at its own batch."""
    settings, size = question.settings, question.own_update
    warmup = 0.0 if question.num_samples is None else int(settings["warmup_steps"]) * size / question.num_samples
    return Recipe(batch_size=size, learning_rate=float(settings["learning_rate"]), warmup_epochs=warmup)


def batch_rows(points: Sequence[dict[str, Any]], question: DevicesQuestion) -> list[dict[str, Any]]:
    """Of weak scaling: the global batch at each number, its rate and warm-up by LEGW, and what it saves."""
    recipe, rows = own_recipe(question), []
    for point in points:
        if point["scaling"] != "weak":
            continue
        size, critical = round(point["global_batch"]), question.critical_batch_size
        scaled = legw(recipe, size)
        rows.append(
            {
                "num_devices": point["num_devices"],
                "global_batch": size,
                "learning_rate": scaled.learning_rate,
                "warmup_epochs": scaled.warmup_epochs,
                "throughput_speedup": point["speedup"],
                "target_speedup": None if critical is None else useful_speedup(point, question),
                "above_critical": None if critical is None else size > critical,
                "within_data": None if question.num_samples is None else size <= question.num_samples,
            }
        )
    return rows
