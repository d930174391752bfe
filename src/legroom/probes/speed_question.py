"""The question about speed as the user's words and the job make it."""

from collections.abc import Sequence
from typing import Any

from legroom.errors import UsageError
from legroom.laws.memory import LARGEST_BATCH
from legroom.probes.gpus import read_gpus
from legroom.records import JobDescription, SpeedQuestion
from legroom.setting_rules import PRECISIONS

RULES = ("throughput", "utilisation")
LEAST_SECONDS = 1.0


def check_speed_words(
    *, device: str, batch_sizes: Sequence[int], rule: str, share: float, seconds: float, precision: str | None
) -> None:
    """Refuse what cannot be asked before the job is read."""
    for size in batch_sizes:
        if not 1 <= size <= LARGEST_BATCH:
            raise UsageError(f"--batch-sizes names {size:,}; sizes are from 1 to {LARGEST_BATCH:,}")
    if rule not in RULES:
        raise UsageError(f"There is no rule {rule!r}. Known: {', '.join(RULES)}")
    if not 0 < share <= 1:
        raise UsageError(f"--share is {share:g}; it must be above 0 and at most 1, as 0.9 for 90 % of the best")
    if not LEAST_SECONDS <= seconds < float("inf"):
        raise UsageError(f"--seconds is {seconds:g}; it must be at least {LEAST_SECONDS:g}")
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"There is no precision {precision!r}. Known: {', '.join(PRECISIONS)}")
    gpus, why_none = read_gpus()
    if device == "cuda" and not gpus:
        raise UsageError(f"CUDA was asked for, but there is no GPU here ({why_none}). Use --device cpu")


def speed_question(description: JobDescription, *, precision: str | None, **words: Any) -> SpeedQuestion:
    """The question, with the job's own precision where none was named."""
    return SpeedQuestion(precision=precision or description.baseline["precision"], **words)
