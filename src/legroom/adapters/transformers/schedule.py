"""Carries the Trainer's schedule over: by name where legroom has the same, by Transformers' own scheduler where not."""

import difflib
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from legroom.errors import UsageError
from legroom.job import OWN_SCHEDULE, RunLength, Settings
from legroom.training.schedule_text import read_schedule

SAME = {"constant": "constant", "constant_with_warmup": "constant", "linear": "linear", "cosine": "cosine"}
"""The Trainer's names of schedules that legroom has too, and legroom's."""
BY_METRIC = ("reduce_lr_on_plateau", "greedy")


def schedule_of(fields: Mapping[str, Any]) -> str:
    """legroom's name of the schedule; "own" where only Transformers can make it."""
    from transformers.trainer_utils import SchedulerType

    name, known = _name(fields), [str(kind.value) for kind in SchedulerType]
    if name not in known:
        close = ", ".join(difflib.get_close_matches(name, known)) or ", ".join(known)
        raise UsageError(f"TrainingArguments.lr_scheduler_type is {name!r}, which there is not. Close to it: {close}")
    return OWN_SCHEDULE if fields.get("lr_scheduler_kwargs") else SAME.get(name, OWN_SCHEDULE)


def scheduler_of(fields: Mapping[str, Any]) -> Callable[[Any, RunLength], Any] | None:
    """Job.scheduler, where the schedule is Transformers' own."""
    return functools.partial(_make_scheduler, fields=fields) if schedule_of(fields) == OWN_SCHEDULE else None


def warmup_steps(fields: Mapping[str, Any], count_steps: Callable[[], int]) -> int:
    """Updates of warm-up, given as their number or as a share of the run's updates, which are counted only then."""
    if _name(fields) == "constant":
        return 0  # the Trainer's plain constant rate takes no notice of them
    steps: float = fields["warmup_steps"] or 0
    if steps >= 1:
        return int(steps)
    share: float = steps or fields.get("warmup_ratio") or 0  # newer versions take the share as warmup_steps
    return math.ceil(share * count_steps()) if share else 0


def schedule_arguments(settings: Settings) -> dict[str, Any]:
    """The fields of TrainingArguments that make this schedule; none for the job's own, which is in yours already."""
    if settings.schedule == OWN_SCHEDULE:
        return {}
    name, kwargs = _equal(settings)
    return {
        "lr_scheduler_type": name,
        "warmup_steps": settings.warmup_steps,
        **({"lr_scheduler_kwargs": kwargs} if kwargs else {}),
    }


def _equal(settings: Settings) -> tuple[str, dict[str, float]]:
    """The Trainer's name of a schedule and its numbers."""
    name, numbers = read_schedule(settings.schedule)
    end, power = (numbers.get(key, (default,))[0] for key, default in (("end", 0.0), ("power", 2.0)))
    if settings.warmup_start == 0:
        match name:
            case "constant":
                return ("constant_with_warmup" if settings.warmup_steps else "constant"), {}
            case "linear" if end == 0:
                return "linear", {}
            case "cosine":
                return ("cosine_with_min_lr", {"min_lr_rate": end}) if end else ("cosine", {})
            case "polynomial" | "polynomial-after-warmup" if name != "polynomial" or settings.warmup_steps == 0:
                return "polynomial", {"power": power, "lr_end": 0.0}
    raise UsageError(
        f"The schedule {settings.schedule!r} with {settings.warmup_steps:,} warm-up steps from "
        f"{settings.warmup_start:g} has no equal in TrainingArguments. Give the Trainer its scheduler: "
        "optimizers=(optimizer, legroom.training.rates.as_scheduler(optimizer, make_schedule(...)))"
    )


def _make_scheduler(optimizer: Any, length: RunLength, fields: Mapping[str, Any]) -> Any:
    from transformers import get_scheduler

    if _name(fields) in BY_METRIC:
        raise UsageError(
            f"TrainingArguments.lr_scheduler_type is {_name(fields)!r}, which waits for a metric; legroom's loop moves "
            "the rate by updates alone. Name a schedule with --schedule instead, such as --schedule linear"
        )
    if length.num_steps is None:
        raise UsageError("The length of the run is unknown, so its schedule has no end to aim at. Give it with --steps")
    num_steps = length.num_steps
    return get_scheduler(
        _name(fields),
        optimizer,
        num_warmup_steps=warmup_steps(fields, lambda: num_steps),
        num_training_steps=num_steps,
        scheduler_specific_kwargs=dict(fields.get("lr_scheduler_kwargs") or {}),
    )


def _name(fields: Mapping[str, Any]) -> str:
    """Names are enumerations in TrainingArguments and words in a dict."""
    value = fields["lr_scheduler_type"]
    return str(getattr(value, "value", value))
