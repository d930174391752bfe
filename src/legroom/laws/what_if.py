"""What a run would take under other circumstances: `time_to_target` put together from the factors of a plan.

    parts of a step = A * compute(B),  A * (pass(B, W) - compute(B)),  update,  exposed communication
    compute of N    = slowdown(N) * compute(B)
    exposed         = max(ring(last bucket), ring(gradients) - 2/3 * compute(B)) + extra(N)
    load of N       = load(N * B, N * W): devices of one host share its cores

slowdown(N) and extra(N) are what so many devices were seen to take longer than the law says: the largest number that
was looked at and is not above N tells.

The plan was measured at one size of an update, where it needs `num_steps` updates. At another size it needs S_min and
B_crit's share of them; where B_crit is not known, at most as many updates or as many samples as there, whichever is
more, and at least whichever is less: both ends of the law. To another target it needs as many times these updates, and
as many times the evaluations, as trials at its rate needed: see `updates_to`.

The page's controls compute with these functions, translated from this file: see `time_to_target`.
"""

from collections.abc import Sequence
from typing import TypedDict

from legroom.laws.communication import ring_seconds
from legroom.laws.time_to_target import (
    compute_seconds,
    joined_spread,
    largest_batch,
    least_steps_from,
    load_seconds,
    memory_bytes,
    money,
    pass_seconds,
    passes_needed,
    seconds_to_target,
    soonest,
    steps_to_target,
    update_size,
)

HIDING = 2 / 3
"""Share of a pass that is backward, behind which gradients are sent: it takes twice the forward's work."""
LAST_BUCKET_BYTES = 25 * 2**20
"""Of gradients that DistributedDataParallel sends together at most; the last of them wait for the pass to end."""


class Factors(TypedDict):
    """What the formula needs; the names are those of the arguments in `time_to_target`."""

    num_steps: float
    """Updates to the target at `known_size` samples an update."""
    known_size: float
    target_value: float
    """The score or loss that is to be reached."""
    planned_value: float
    """What `num_steps` reach."""
    values: Sequence[float]
    """Scores or losses that trials at its rate came to, from the worst to the best; empty where none is known."""
    updates: Sequence[float]
    """Of the first run that came to each."""
    critical_batch_size: float | None
    sizes: Sequence[float]
    seconds: Sequence[float]
    """Of a pass at each of these sizes, its data on the device."""
    inline_seconds: float
    worker_seconds: float
    contention: float
    coherence: float
    core_seconds: float
    num_workers: float
    fixed_bytes: float
    bytes_per_sample: float
    device_bytes: float
    update: float
    evaluation: float
    num_evaluations: float
    batch_size: float
    """Of a pass, as asked for; where the device cannot hold it, more passes take its place."""
    num_passes: float
    num_devices: float
    parameter_bytes: float
    latency: float
    bandwidth: float
    """Of the link between devices: seconds of a message, bytes a second each way."""
    numbers: Sequence[float]
    """Of devices that were looked at; they rise from 1 on."""
    slowdowns: Sequence[float]
    """Times a pass takes there what it takes on one device alone."""
    extras: Sequence[float]
    """Seconds of communication there beyond the law's."""
    on_one_machine: float
    """1 where devices are processes of one machine, whose hour is paid for once; else 0."""
    price_per_hour: float
    steps_spread: float
    seconds_spread: float


def passes(factors: Factors) -> float:
    """Passes an update: as asked for, or as many as make its batch fit."""
    largest = largest_batch(factors["device_bytes"], factors["fixed_bytes"], factors["bytes_per_sample"])
    return factors["num_passes"] * passes_needed(factors["batch_size"], max(1, largest))


def pass_batch(factors: Factors) -> float:
    """Samples of a pass on a device, the last one perhaps with fewer."""
    return factors["batch_size"] * factors["num_passes"] / passes(factors)


def samples_of_update(factors: Factors) -> float:
    """Samples of an update on all devices."""
    return update_size(factors["batch_size"], factors["num_passes"], factors["num_devices"])


def exposed_seconds(
    compute: float, parameter_bytes: float, num_devices: float, latency: float, bandwidth: float
) -> float:
    """Seconds in which gradients go round a ring of devices and nothing is computed; see `communication`.

    >>> round(exposed_seconds(0.3, 1e9, 4, 0.0, 1e9), 6), exposed_seconds(0.3, 1e9, 1, 0.0, 1e9)
    (1.3, 0.0)
    """
    last = ring_seconds(min(parameter_bytes, LAST_BUCKET_BYTES), num_devices, latency, bandwidth)
    return max(last, ring_seconds(parameter_bytes, num_devices, latency, bandwidth) - HIDING * compute)


def at_number(num_devices: float, numbers: Sequence[float], values: Sequence[float]) -> float:
    """The value of the largest number that is not above that of the devices.

    >>> [at_number(num, [1, 2, 8], [1.0, 1.1, 1.5]) for num in (1, 2, 4, 16)]
    [1.0, 1.1, 1.1, 1.5]
    """
    found = values[0]
    for place in range(len(numbers)):
        found = values[place] if numbers[place] <= num_devices else found
    return found


def step_parts(factors: Factors) -> list[float]:
    """Seconds of an update: compute, waiting for data, the update itself, communication."""
    batch = pass_batch(factors)
    num_devices = factors["num_devices"]
    slowdown = at_number(num_devices, factors["numbers"], factors["slowdowns"])
    compute = slowdown * compute_seconds(batch, factors["sizes"], factors["seconds"])
    load = load_seconds(
        batch * num_devices,
        factors["num_workers"] * num_devices,
        factors["inline_seconds"] / num_devices,
        factors["worker_seconds"],
        factors["contention"],
        factors["coherence"],
        factors["core_seconds"],
    )
    waiting = pass_seconds(compute, load, factors["num_workers"]) - compute
    exposed = exposed_seconds(
        compute, factors["parameter_bytes"], num_devices, factors["latency"], factors["bandwidth"]
    )
    extra = at_number(num_devices, factors["numbers"], factors["extras"])
    return [passes(factors) * compute, passes(factors) * waiting, factors["update"], max(0.0, exposed + extra)]


def updates_to(value: float, values: Sequence[float], updates: Sequence[float]) -> float:
    """Updates to a score or loss by lines in ln updates between values that improve, whether they rise or fall.

    Outside of them those of the nearest.

    >>> [round(updates_to(score, [0.5, 0.8, 0.9], [10.0, 40.0, 160.0]), 1) for score in (0.4, 0.65, 0.9, 0.95)]
    [10.0, 20.0, 160.0, 160.0]
    >>> updates_to(0.3, [0.5, 0.3, 0.1], [10.0, 40.0, 160.0])
    40.0
    """
    last = len(values) - 1
    sign = 1.0 if values[last] > values[0] else -1.0
    found = updates[0]
    for place in range(last):
        share = (value - values[place]) / (values[place + 1] - values[place])
        line = updates[place] * (updates[place + 1] / updates[place]) ** min(1.0, max(0.0, share))
        found = line if sign * value >= sign * values[place] else found
    return found


def target_share(factors: Factors) -> float:
    """Updates to the target as a multiple of those to the plan's own; 1 where no other is known."""
    values = factors["values"]
    updates = factors["updates"]
    if len(values) < 2:
        return 1.0
    return updates_to(factors["target_value"], values, updates) / updates_to(factors["planned_value"], values, updates)


def steps_range(factors: Factors) -> list[float]:
    """The fewest and the most updates to the target by the law; one number twice where B_crit is known."""
    size = samples_of_update(factors)
    known = factors["known_size"]
    critical = factors["critical_batch_size"]
    at_known = target_share(factors) * factors["num_steps"]
    if critical is None:
        return [at_known * min(1.0, known / size), at_known * max(1.0, known / size)]
    num_steps = steps_to_target(size, least_steps_from(at_known, known, critical), critical)
    return [num_steps, num_steps]


def evaluating_seconds(factors: Factors) -> float:
    """Seconds of all evaluations of the run."""
    return target_share(factors) * factors["num_evaluations"] * factors["evaluation"]


def run_parts(factors: Factors) -> list[float]:
    """Seconds of the run by the parts of its steps, and its evaluations; by the most updates that it may need."""
    parts = step_parts(factors)
    return [*[steps_range(factors)[1] * part for part in parts], evaluating_seconds(factors)]


def seconds_range(factors: Factors) -> list[float]:
    """Seconds to the target: the least, the most likely by the most updates, and the most."""
    steps = steps_range(factors)
    step = sum(step_parts(factors))
    spread = joined_spread(factors["steps_spread"], factors["seconds_spread"])
    least = seconds_to_target(steps[0], step, 1, evaluating_seconds(factors))
    most = seconds_to_target(steps[1], step, 1, evaluating_seconds(factors))
    return [least / spread, most, most * spread]


def memory_needed(factors: Factors) -> float:
    """What a device holds."""
    return memory_bytes(pass_batch(factors), factors["fixed_bytes"], factors["bytes_per_sample"])


def most_in_memory(factors: Factors) -> float:
    """The largest batch of a pass that the device holds; 0 where none does."""
    return largest_batch(factors["device_bytes"], factors["fixed_bytes"], factors["bytes_per_sample"])


def cost(factors: Factors) -> float:
    """What the run costs on all devices that are paid for."""
    num_paid = 1 if factors["on_one_machine"] > 0 else factors["num_devices"]
    return money(seconds_range(factors)[1], num_paid, factors["price_per_hour"])


def at_batch(factors: Factors, batch_size: float) -> Factors:
    """The same with another batch of one pass an update, which more passes replace where it does not fit."""
    return {**factors, "batch_size": batch_size, "num_passes": 1}


def best_batch(factors: Factors, candidates: Sequence[float]) -> float:
    """The candidate that reaches the target soonest; they rise."""
    seconds = [seconds_range(at_batch(factors, size))[1] for size in candidates]
    return candidates[soonest(candidates, seconds, candidates[len(candidates) - 1])]
