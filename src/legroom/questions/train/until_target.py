"""What `--until-target` asks of the words and of the job, and what it changes of the settings."""

from collections.abc import Mapping
from typing import Any

from legroom.errors import UsageError
from legroom.job import OWN_SCHEDULE
from legroom.requests import JobDescription
from legroom.training.cooldowns import COOLING, cooldown_share, whole_length
from legroom.training.records import Cooldown, Train, Trained
from legroom.training.schedule_text import read_schedule
from legroom.units import format_seconds

ROOM = 4
"""A run that names no length may be so many times as long as the job's or the plan's own."""


def check_until_target(words: Mapping[str, Any]) -> None:
    """Refuse what cannot be asked together with it."""
    if words["target"] is None:
        raise UsageError(
            "--until-target was given without a target. Say what the run should reach: --target score=0.97 or loss=0.1"
        )
    if words["patience"] is not None:
        raise UsageError(
            "--patience ends a run that no longer gains, and one --until-target gains most while it cools down. "
            "Leave --patience out; --steps, --epochs and --seconds end such a run"
        )
    if words["several"]:
        raise UsageError(
            "--until-target cools copies of the model down in one process, and this run has several. Leave it out, or "
            "train with --devices 1"
        )


def prepare_until_target(
    settings: dict[str, Any], words: dict[str, Any], description: JobDescription, *, is_long: bool
) -> None:
    """Give the run the schedule `stable` and room to reach its target; `is_long`: the user said how much."""
    if description.own_step:
        raise UsageError(
            "This job has its own step, and legroom cannot cool down rates that it does not set. Leave --until-target "
            "out, or give the job a loss and an optimizer"
        )
    if settings["schedule"] == OWN_SCHEDULE:
        raise UsageError(
            "This job has its own scheduler, which moves the rate by itself, and --until-target decides when the rate "
            "falls. Name the schedule with --schedule stable, or leave --until-target out"
        )
    if read_schedule(settings["schedule"])[0] != "stable":
        settings["schedule"] = COOLING
    if not is_long and words["num_steps"] is not None:
        words["num_steps"] *= ROOM
    elif not is_long:
        settings["num_epochs"] *= ROOM


def cooldown_notes(request: Train, trained: Trained) -> list[str]:
    """Which cooldown reached the target, how to have the same run in one go, and what the others cost."""
    if not request.until_target or trained.stopped_because == "diverged":
        return []
    missed = [each for each in trained.cooldowns if not each.reached]
    return [*_how_reached(request, trained), *([_cost(missed, trained)] if missed else [])]


def _how_reached(request: Train, trained: Trained) -> list[str]:
    if trained.stopped_because != "target":
        return []
    if trained.num_steps == 0:
        return ["The untrained model meets the target already: nothing was trained. Ask for a better score"]
    reached = [each for each in trained.cooldowns if each.reached]
    if not reached:
        return ["The target was reached before a cooldown was tried for it"]
    last, schedule = reached[-1], request.settings["schedule"]
    return [
        f"Cooldown {len(trained.cooldowns)}, from update {last.step:,} on, reached the target after {last.num_steps:,} "
        f"updates. The same run without looking for the place: --schedule {schedule} "
        f"--steps {whole_length(last.step, cooldown_share(schedule))}"
    ]


def _cost(missed: list[Cooldown], trained: Trained) -> str:
    steps, samples = sum(each.num_steps for each in missed), sum(each.num_samples for each in missed)
    seconds = sum(each.seconds for each in missed)
    return (
        f"{len(missed)} cooldowns missed the target and told when to try again: they cost {steps:,} updates "
        f"({steps / max(1, trained.num_steps):.0%} of the run's own), {samples:,} samples and {format_seconds(seconds)}"
    )
