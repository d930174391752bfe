"""The time a training run needs to its target, and what it costs: the factors of all questions in one formula.

    seconds      = steps(A*B*N) * step_seconds + evaluations
    steps        = S_min * (1 + B_crit / (A*B*N))
    step_seconds = A * pass(B, W) + update + exposed communication
    pass(B, W)   = max(compute(B), load(B, W)), or compute(B) + load(B, 0) where no workers load ahead
    subject to     memory(B) <= device memory,   N * W * (prefetch * B * sample + worker) <= host memory

B: batch of a pass. A: passes joined into an update. N: devices. W: loader workers of each device. S_min and B_crit: see
`steps`. compute(B): see `compute`, here by the sizes timed. load(B, W), and host memory: see `loading`.

The page's controls compute with these functions, translated from this file. So each is plain arithmetic on numbers and
lists of numbers: assignments, conditional expressions, loops over range, the functions of math, and each other.
"""

import math
from collections.abc import Sequence


def update_size(batch_size: float, num_passes: float, num_devices: float) -> float:
    """Samples of an update: A * B * N.

    >>> update_size(64, 2, 4)
    512
    """
    return batch_size * num_passes * num_devices


def steps_to_target(size: float, least_steps: float, critical_batch_size: float) -> float:
    """Updates to the target at that many samples an update; S. McCandlish et al. (2018), eq. 2.11.

    >>> steps_to_target(256, 500, 256)
    1000.0
    """
    return least_steps * (1 + critical_batch_size / size)


def least_steps_from(num_steps: float, size: float, critical_batch_size: float) -> float:
    """S_min, from the updates that one size of an update needs.

    >>> least_steps_from(1000, 256, 256)
    500.0
    """
    return num_steps / (1 + critical_batch_size / size)


def compute_seconds(batch_size: float, sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Seconds of a pass, by straight lines in ln seconds over ln B between the sizes timed, which rise.

    Below them as long as at the smallest: a floor. Above them in proportion to the batch, as on a device that is full.

    >>> [round(compute_seconds(size, [16, 64, 256], [0.01, 0.01, 0.04]), 4) for size in (4, 32, 128, 512)]
    [0.01, 0.01, 0.02, 0.08]
    """
    last = len(sizes) - 1
    found = seconds[0]
    for place in range(last):
        share = math.log(batch_size / sizes[place]) / math.log(sizes[place + 1] / sizes[place])
        inside = min(1.0, max(0.0, share))
        line = seconds[place] * (seconds[place + 1] / seconds[place]) ** inside
        found = line if batch_size >= sizes[place] else found
    return found * max(1.0, batch_size / sizes[last])


def load_seconds(
    batch_size: float,
    num_workers: float,
    inline_seconds: float,
    worker_seconds: float,
    contention: float,
    coherence: float,
    core_seconds: float,
) -> float:
    """Seconds in which a batch is loaded, by the Universal Scalability Law; all but the first two are of one sample.

    inline_seconds: without workers. worker_seconds: by one worker. core_seconds: where all cores are full.

    >>> [round(load_seconds(100, workers, 0.001, 0.0012, 0.1, 0.0, 0.0004), 3) for workers in (0, 1, 2, 8)]
    [0.1, 0.12, 0.066, 0.04]
    """
    waits = 1 + contention * (num_workers - 1) + coherence * num_workers * (num_workers - 1)
    by_workers = max(worker_seconds * waits / max(1.0, num_workers), core_seconds)
    return batch_size * (inline_seconds if num_workers < 1 else by_workers)


def pass_seconds(compute: float, load: float, num_workers: float) -> float:
    """Seconds of a forward and backward pass with its batch: workers load meanwhile, the training process cannot.

    >>> pass_seconds(0.03, 0.02, 4), pass_seconds(0.03, 0.02, 0)
    (0.03, 0.05)
    """
    return compute + load if num_workers < 1 else max(compute, load)


def step_seconds(num_passes: float, one_pass: float, update: float, exposed: float) -> float:
    """Seconds of an update: its passes, what each update costs besides, and communication that nothing hides.

    >>> step_seconds(2, 0.05, 0.01, 0.0)
    0.11
    """
    return num_passes * one_pass + update + exposed


def seconds_to_target(num_steps: float, step: float, num_evaluations: float, evaluation: float) -> float:
    """Seconds of the run: its updates, and the passes over the validation data.

    >>> seconds_to_target(1000, 0.05, 2, 1.5)
    53.0
    """
    return num_steps * step + num_evaluations * evaluation


def memory_bytes(batch_size: float, fixed_bytes: float, bytes_per_sample: float) -> float:
    """What a device holds at that batch of a pass.

    >>> memory_bytes(64, 1e9, 2e7)
    2280000000.0
    """
    return fixed_bytes + batch_size * bytes_per_sample


def largest_batch(device_bytes: float, fixed_bytes: float, bytes_per_sample: float) -> float:
    """The largest batch of a pass that the device holds; 0 where none does.

    >>> largest_batch(16e9, 1e9, 2e7), largest_batch(1e8, 1e9, 2e7)
    (750, 0)
    """
    return max(0, -math.ceil(-(device_bytes - fixed_bytes) / bytes_per_sample))


def passes_needed(size: float, largest: float) -> float:
    """Passes that make an update of so many samples of batches that fit.

    >>> passes_needed(1000, 256), passes_needed(100, 256)
    (4, 1)
    """
    return math.ceil(size / largest)


def money(seconds: float, num_devices: float, price_per_hour: float) -> float:
    """What the run costs at that price of a device's hour.

    >>> money(1800, 8, 2.5)
    10.0
    """
    return seconds / 3600 * num_devices * price_per_hour


def energy_joules(num_samples: float, joules_per_sample: float) -> float:
    """What the run takes of energy, by what a sample takes at its batch.

    >>> energy_joules(1000, 0.5)
    500.0
    """
    return num_samples * joules_per_sample


def joined_spread(first: float, second: float) -> float:
    """By which factor a product may be off both ways, from those of two factors that err independently.

        ln(joined)^2 = ln(first)^2 + ln(second)^2

    >>> round(joined_spread(1.3, 1.4), 3), joined_spread(1.0, 1.25)
    (1.532, 1.25)
    """
    return math.exp(math.sqrt(math.log(first) ** 2 + math.log(second) ** 2))


def soonest(sizes: Sequence[float], seconds: Sequence[float], largest: float) -> int:
    """The place of the size with the least seconds among those that fit, the first of equals; sizes rise.

    >>> soonest([32, 64, 128], [9.0, 5.0, 4.0], largest=100)
    1
    """
    best = 0
    for place in range(len(sizes)):
        better = place if seconds[place] < seconds[best] else best
        best = better if sizes[place] <= largest else best
    return best
