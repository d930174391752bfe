"""Words of `devices` that ask for what cannot be, refused before anything is run or foreseen."""

import math
from collections.abc import Sequence
from typing import Any

from legroom.errors import UsageError
from legroom.questions.base import check_counts, check_precision, check_word
from legroom.questions.devices.records import DevicesQuestion
from legroom.requests import JobDescription
from legroom.training.several import CARRIES_STATE

RULES = ("legroom", "local-peak")
MOST = 4096
OPTIONS = {"most": "--max", "measured": "--measure", "options": "--with", "job": "JOB"}
"""As the command line calls them, where that is not the word itself."""
UNSAID = {"job": "digits", "device": "auto", "rule": "legroom"}


def refuse_beside_table(**words: Any) -> None:
    """Refuse words about a run where published times are read."""
    said = [name for name, word in words.items() if word and word != UNSAID.get(name)]
    if said:
        names = ", ".join(OPTIONS.get(name, f"--{name.replace('_', '-')}") for name in said)
        raise UsageError(
            f"--from-table reads published times and runs no job, so it has no use for {names}. Leave "
            f"{'it' if len(said) == 1 else 'them'} out"
        )


def check_words(
    *,
    batch_size: int | None,
    most: int | None,
    measured: int | None,
    num_here: int,
    speeds: Sequence[float],
    price: float | None,
    rule: str,
    precision: str | None,
    delay: float = 0.0,
) -> None:
    """Refuse words that ask for what cannot be; `num_here`: devices of this machine."""
    check_word("rule", rule, RULES)
    check_precision(precision)
    check_counts({"--batch-size": batch_size})
    if most is not None and not 1 <= most <= MOST:
        raise UsageError(f"--max is {most:,}; it is a number of devices from 1 to {MOST:,}")
    _check_measured(measured, num_here)
    if len(speeds) == 1 or any(not 0 < speed < math.inf for speed in speeds):
        raise UsageError("--speeds needs two speeds above 0 or more, relative to the device here: 1,1,0.6")
    if price is not None and not 0 <= price < math.inf:
        raise UsageError(f"--price is {price:g}; it is money for a device's hour, at least 0")
    if not 0 <= delay < math.inf:
        raise UsageError(f"delay is {delay:g}; it is seconds of a message, at least 0")


def _check_measured(measured: int | None, num_here: int) -> None:
    if measured is not None and not 1 <= measured <= num_here:
        raise UsageError(
            f"--measure is {measured}, and this machine has {num_here}. Name 1 to {num_here}; more are forecast "
            "with --max"
        )


def refuse_unshared(description: JobDescription, question: DevicesQuestion) -> None:
    """Say what a job lacks that cannot be shared; a forecast over a link that was named deals out no batches."""
    batch_size = question.batch_size
    if description.own_step:
        raise UsageError(
            "This job has its own step, so legroom cannot share its updates; give the Job loss and optimizer instead"
        )
    if description.carries_state and question.num_measured > 1:
        raise UsageError(CARRIES_STATE)
    limit = description.data_limit
    if limit is not None and batch_size > limit:
        raise UsageError(f"A batch of {batch_size:,} is more than the {limit:,} samples there are. Name at most that")
