"""How fast W loader workers deliver, how much host memory they take, and where a batch's time goes.

R(W) = W r / (1 + s (W - 1) + k W (W - 1))          Universal Scalability Law (N. Gunther, 1993)
R(W) <= cores / c                                   c core seconds a sample, in all processes

r  samples per second of one worker    s  share of the work that waits in line    k  cost of each pair of workers
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_WORKERS = 256
"""More are never tried, nor said to fit: beyond them only processes are added."""
WORKER_BYTES = 2**25
"""What a worker is taken to hold where none could be looked at."""
ROOM_SHARE = 0.85
"""Of what is free in /dev/shm or host memory, the share to fill: other programs take some too."""
NUM_TAKEN = 2
"""Batches beside those ahead: one is in use until the next has been taken, and workers go on at once."""
ENOUGH = 0.98
"""Share of the best throughput that counts as reached: below 2 % a difference is noise on most machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderLaw:
    """The throughput of W workers, the device aside."""

    rate: float
    """Samples per second of one worker, by the name that saved answers have for it."""
    contention: float = 0.0
    coherence: float = 0.0
    ceiling: float = math.inf
    """Samples per second at which the cores are full."""

    def samples_per_second(self, num_workers: int) -> float:
        """What that many workers deliver.

        >>> LoaderLaw(rate=100.0, contention=0.1).samples_per_second(4)
        307.6923076923077
        """
        waits = self.contention * (num_workers - 1) + self.coherence * num_workers * (num_workers - 1)
        return min(num_workers * self.rate / (1 + waits), self.ceiling)


def fit_loader_law(throughputs: Mapping[int, float], ceiling: float = math.inf) -> LoaderLaw:
    """The law through what was measured: {workers: samples per second}, one worker among them.

    W r / R(W) - 1 is linear in s and k, so two more points give both; neither may be negative.

    >>> law = fit_loader_law({1: 100.0, 2: 181.8, 4: 307.7})
    >>> round(law.contention, 3), round(law.coherence, 3)
    (0.1, 0.0)
    """
    one = throughputs[1]
    points = [(num - 1, num * (num - 1), num * one / each - 1) for num, each in sorted(throughputs.items()) if num > 1]
    contention, coherence = _least_squares(points)
    return LoaderLaw(rate=one, contention=contention, coherence=coherence, ceiling=ceiling)


def core_ceiling(num_cores: int, samples_per_batch: float, core_seconds: Sequence[float]) -> float:
    """Samples per second at which all cores are busy; each batch costs the sum of `core_seconds`.

    >>> core_ceiling(2, 32, [0.012, 0.004])
    4000.0
    """
    return num_cores * samples_per_batch / max(sum(core_seconds), 1e-9)


def _least_squares(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The smallest sum of squares of y - s a - k b with s, k >= 0."""
    aa, ab, bb = (sum(point[i] * point[j] for point in points) for i, j in ((0, 0), (0, 1), (1, 1)))
    ay, by = (sum(point[i] * point[2] for point in points) for i in (0, 1))
    determinant = aa * bb - ab * ab
    if len(points) > 1 and determinant > 1e-9 * aa * bb:
        contention, coherence = (ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant
        if contention >= 0 and coherence >= 0:
            return contention, coherence
        if contention < 0 <= coherence:
            return 0.0, max(0.0, by / bb)
    return (max(0.0, ay / aa) if aa else 0.0), 0.0


def fewest_workers(law: LoaderLaw, needed: float, most: int = MOST_WORKERS) -> int:
    """The fewest workers that reach what is needed, or the best there is, to within 2 %.

    >>> fewest_workers(LoaderLaw(rate=100.0), needed=350.0)
    4
    >>> fewest_workers(LoaderLaw(rate=100.0, ceiling=190.0), needed=350.0)
    2
    """
    counts = range(1, max(1, most) + 1)
    target = ENOUGH * min(needed, max(law.samples_per_second(num) for num in counts))
    return next(num for num in counts if law.samples_per_second(num) >= target)


def workers_for_devices(law: LoaderLaw, needed: float, num_devices: int, most: int = MOST_WORKERS) -> int:
    """Workers for each of several devices whose loaders share one host, by the law of all of them together.

    >>> workers_for_devices(LoaderLaw(rate=100.0, ceiling=1600.0), needed=350.0, num_devices=4)
    4
    """
    return -(-fewest_workers(law, needed * num_devices, most * num_devices) // num_devices)


def most_workers_in_memory(
    available_bytes: float,
    shm_bytes: float | None,
    *,
    worker_bytes: float,
    batch_bytes: float,
    prefetch_factor: int,
    num_devices: int = 1,
) -> int:
    """The most workers for each device that host memory and /dev/shm hold: N W (worker + prefetch * batch) <= memory.

    Every batch that waits lies in shared memory, which is host memory too. Of /dev/shm 85 % are filled. Never more than
    256: memory for thousands says nothing about workers.

    >>> most_workers_in_memory(8 * 2**30, 128 * 2**20, worker_bytes=2**28, batch_bytes=2**24, prefetch_factor=2)
    2
    """
    waiting = prefetch_factor * batch_bytes
    by_memory = by_shm = int(available_bytes / num_devices / max(1.0, worker_bytes + waiting))
    if shm_bytes is not None:
        ahead = ROOM_SHARE * shm_bytes / num_devices - NUM_TAKEN * batch_bytes
        by_shm = int(ahead / max(1.0, waiting))
    return max(0, min(by_memory, by_shm, MOST_WORKERS))


def waiting_bytes(num_workers: int, prefetch_factor: int, batch_bytes: int) -> int:
    """What the batches of one loader take of /dev/shm at most: those ahead, the one in use and the next one, taken.

    >>> waiting_bytes(4, 2, batch_bytes=10)
    100
    """
    return (num_workers * prefetch_factor + NUM_TAKEN) * batch_bytes if num_workers else 0


def time_shares(compute: float, warm: float, cold: float) -> dict[str, float]:
    """Where a batch's seconds go, by difference: device alone, plus preparation, plus cold storage.

    J. Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training" (VLDB 2021), section 4.

    >>> time_shares(compute=0.047, warm=0.059, cold=0.1)
    {'compute': 0.47, 'preparation': 0.12, 'storage': 0.41}
    """
    whole = max(compute, warm, cold)
    preparation = max(0.0, warm - compute)
    storage = max(0.0, cold - max(warm, compute))
    shares = {"compute": whole - preparation - storage, "preparation": preparation, "storage": storage}
    return {name: round(value / whole, 4) for name, value in shares.items()}
