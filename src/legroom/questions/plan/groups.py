"""Groups of devices that train together: how much slower a pass is on each, and which communication nothing hides.

    slowdown(N, B) = compute of a step on each of N devices (`devices`) / compute of a step on one alone (`speed`)

Both at a batch of B. So what the training loop adds, and what loading takes, stays as the plan knows it of one device.
On a CPU `speed` has all cores for one process and `devices` a core for each, which the slowdown holds too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from legroom.errors import UsageError
from legroom.laws.time_to_target import compute_seconds
from legroom.laws.what_if import exposed_seconds
from legroom.questions.plan.factors import timed_pace
from legroom.questions.plan.records import PlanQuestion

MOST = 4096
REACH = 2.0
"""Times the largest batch of a device that was timed or forecast, and of the smallest: beyond it nothing is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """So many devices together; lists are by batch of a device, which rises."""

    num_devices: int
    sizes: Sequence[float]
    slowdowns: Sequence[float]
    exposed: Sequence[float]
    """Seconds of an update in which devices wait for one another."""
    spreads: Sequence[float]
    """By which factor a step may be off."""
    measured: Sequence[float]
    """Sizes at which they were run; the others are forecast."""

    def covers(self, batch_size: float) -> bool:
        """Whether anything was looked at near that batch."""
        return min(self.sizes) / REACH <= batch_size <= REACH * max(self.sizes)

    def slowdown(self, batch_size: float) -> float:
        """Times that a pass takes longer than on one device alone."""
        return _between(batch_size, self.sizes, self.slowdowns)

    def waits(self, batch_size: float) -> float:
        """Seconds of an update in which devices wait for one another."""
        return _between(batch_size, self.sizes, self.exposed)

    def spread(self, batch_size: float) -> float:
        """By which factor a step may be off."""
        return _between(batch_size, self.sizes, self.spreads)


def _between(size: float, sizes: Sequence[float], values: Sequence[float]) -> float:
    """The value at a size, by straight lines over ln size; those at the ends hold beyond them.

    >>> [_between(size, [16, 64], [1.0, 2.0]) for size in (8, 16, 32, 64, 128)]
    [1.0, 1.0, 1.5, 2.0, 2.0]
    """
    found = values[0]
    for place in range(len(sizes) - 1):
        share = math.log(size / sizes[place]) / math.log(sizes[place + 1] / sizes[place])
        if share > 0:
            found = values[place] + min(1.0, share) * (values[place + 1] - values[place])
    return found


def group_of(question: PlanQuestion, num_devices: int) -> Group | None:
    """The group of so many, by the answer of `devices`; None where it does not tell."""
    pace, answer = timed_pace(question), question.devices
    if pace is None or answer is None:
        return None
    points = {float(one["batch_size"]): one for one in answer.points if one["num_devices"] == num_devices}
    sizes = sorted(points)
    if not sizes:
        return None
    return Group(
        num_devices=num_devices,
        sizes=sizes,
        slowdowns=[points[size]["compute_seconds"] / compute_seconds(size, pace.sizes, pace.seconds) for size in sizes],
        exposed=[points[size]["exposed_seconds"] for size in sizes],
        spreads=[_spread(points[size]["range"]) for size in sizes],
        measured=[size for size in sizes if not points[size]["predicted"]],
    )


def _spread(ends: Sequence[float]) -> float:
    return max(1.0, math.sqrt(ends[1] / ends[0])) if ends[0] > 0 else 1.0


def numbers_of(question: PlanQuestion) -> list[int]:
    """Numbers of devices that the plan may choose, as far as anything tells of them."""
    return [num for num in question.numbers if num == 1 or group_of(question, num) is not None]


def group_factors(question: PlanQuestion, batch_size: int, compute: float) -> Mapping[str, Any]:
    """What the page needs to compute with other numbers of devices, at that batch and its seconds on one alone."""
    answer = question.devices
    if answer is None:
        return {}
    link = (answer.latency_seconds or 0.0, answer.bandwidth_bytes_per_second or math.inf)
    found: dict[str, list[float]] = {"numbers": [1], "slowdowns": [1.0], "extras": [0.0]}
    for num in sorted({one["num_devices"] for one in answer.points} - {1}):
        group = group_of(question, num)
        if group is not None and group.covers(batch_size):
            slowdown = group.slowdown(batch_size)
            law = exposed_seconds(slowdown * compute, question.parameter_bytes, num, *link)
            found["numbers"].append(num)
            found["slowdowns"].append(slowdown)
            found["extras"].append(group.waits(batch_size) - law)
    return {**found, "latency": answer.latency_seconds, "bandwidth": answer.bandwidth_bytes_per_second}


def read_numbers(text: str, num_here: int, link: str | None) -> list[int]:
    """The numbers that `--devices` names, each once, rising.

    >>> read_numbers("all", 6, None), read_numbers("1,8", 6, None), read_numbers("4", 4, None)
    ([1, 2, 4, 6], [1, 8], [4])
    """
    if text.strip() == "all":
        return sorted({*(2**power for power in range(13) if 2**power <= num_here), num_here})
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or not all(1 <= num <= MOST for num in found):
        raise UsageError(f"--devices is {text!r}; write a number from 1 to {MOST:,}, several with commas, or all")
    here = [num for num in found if num <= num_here]
    odd = [num for num in found if num & (num - 1) and num not in (max(found), max(here, default=0))]
    if odd:
        raise UsageError(
            f"--devices has {odd[0]}; besides 1, 2, 4, 8 ... only the largest number, and the largest that is here, "
            "are measured or forecast. Leave it out, or ask for it alone"
        )
    if max(found) > num_here and num_here == 1 and link is None:
        raise UsageError(
            f"--devices has {max(found)}, and this machine has 1. Name what will link them, for a forecast: "
            "--link nvlink, or a rate and a latency, as --link 25Gb/s,20us"
        )
    return found
