"""What each setting must be: one rule a name, the same for Settings in code, in a plan and on the command line."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from legroom.errors import UsageError

PRECISIONS = ("fp32", "bf16", "fp16")
MOST = 4096
"""Workers that a job, a plan or a record may name, of a larger machine than the one that reads it: 16 for 256 cores."""
WORKERS_A_CORE = 16
FEWEST = 64
"""Workers allowed on any machine: a job may name what it runs on a larger one."""
MOST_AHEAD = 1000
"""Batches that a loader process may prepare ahead: more are a slip of the hand, and fill the memory."""

Rule = tuple[Callable[[Any], bool], str]
"""Whether a value will do, and what it must be, in words."""


def most_workers(num_cores: int) -> int:
    """More loader processes than this are a slip of the hand: each of them imports torch."""
    return min(MOST, max(FEWEST, WORKERS_A_CORE * num_cores))


def check_workers(num_workers: int, num_cores: int) -> None:
    """Refuse more loader processes than the machine that is to run them may have."""
    most = most_workers(num_cores)
    if num_workers > most:
        raise UsageError(f"num_workers is {num_workers}; it must be a whole number from 0 to {most} on this machine")


def _whole(least: int) -> Rule:
    return lambda value: _is_whole(value) and value >= least, f"a whole number of at least {least}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("batch_size", "accumulation_steps", "num_epochs", "num_devices"), _whole(1)),
    "prefetch_factor": (
        lambda value: _is_whole(value) and 1 <= value <= MOST_AHEAD,
        f"a whole number from 1 to {MOST_AHEAD:,}",
    ),
    "warmup_steps": _whole(0),
    "num_workers": (
        lambda value: _is_whole(value) and 0 <= value <= MOST,
        f"a whole number from 0 to {MOST}",
    ),
    "learning_rate": (_is_positive, "a positive number"),
    "warmup_start": (lambda value: is_number(value) and 0 <= value <= 1, "a share of the rate, 0 to 1"),
    **dict.fromkeys(
        ("clip_norm", "bucket_cap_mb"),
        (lambda value: value is None or _is_positive(value), "a positive number, or None"),
    ),
    "schedule": (lambda value: isinstance(value, str), 'text such as "cosine" or "polynomial:power=2"'),
    "precision": (lambda value: value in PRECISIONS, f"one of {', '.join(PRECISIONS)}"),
    **dict.fromkeys(
        ("channels_last", "fused", "compile", "broadcast_buffers"),
        (lambda value: isinstance(value, bool), "true or false"),
    ),
    "model_size": (
        lambda value: isinstance(value, str) and re.fullmatch(r"(\w+=[1-9]\d*)?", value) is not None,
        'text such as "width=64", or empty for the job\'s own model',
    ),
    "seed": (_is_whole, "a whole number"),
}


def lacks(name: str, value: Any) -> str:
    """What the setting must be, where the value is not that; empty where it is.

    >>> lacks("batch_size", True), lacks("batch_size", 8)
    ('a whole number of at least 1', '')
    """
    fits, wanted = RULES[name]
    return "" if fits(value) else wanted
