"""Seconds that devices spend on each other: all-reduces, gradient buckets behind a backward pass, speed-up, efficiency.

    ring      2 (N - 1) * latency  +  2 (N - 1) / N * bytes / bandwidth
    tree      2 ceil(log2 N) * latency  +  2 * bytes / bandwidth
    step      forward + broadcast + max(backward, end of the last bucket) + update
    exposed   step - (forward + backward + update)          overlap   1 - exposed / total

N: devices. latency: seconds of one message. bandwidth: bytes a second that a device sends while it receives as many.
A ring moves the least bytes that any all-reduce can: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms
for clusters of workstations (2009), lemma 4; it pays with messages that grow with N. A tree, reduce then broadcast with
the message cut so that its pieces follow each other, has few messages and more bytes: P. Sanders, J. Speck and J. L.
Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan (2009). Buckets of gradients that travel
while the backward pass goes on: S. Li et al., PyTorch Distributed (VLDB 2020), section 3.2.3.

The functions of a step are plain arithmetic on numbers and lists of numbers, as in `time_to_target`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legroom.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

MIB = 2**20
FIRST_BUCKET_BYTES = MIB
"""Of DistributedDataParallel: the first bucket is small, so that the link starts early."""
DISTURBS = 1.5
"""Chosen on two quiet cores (2026-11-18), where steps of two processes exposed 1.1 to 2.0 times as much as their
buckets took alone; nothing was held out."""
BUCKET_CAP_MB = 25.0
"""Of DistributedDataParallel, where nobody says another; it counts in MiB."""


def ring_seconds(num_bytes: float, num_devices: float, latency: float, bandwidth: float) -> float:
    """Seconds of a ring all-reduce: each device sends N - 1 shares to be summed, then N - 1 sums.

    >>> round(ring_seconds(25e6, 4, 1e-5, 1e9), 6)
    0.03756
    """
    sent = 2 * (num_devices - 1) / num_devices * num_bytes
    return 2 * (num_devices - 1) * latency + sent / bandwidth


def tree_seconds(num_bytes: float, num_devices: float, latency: float, bandwidth: float) -> float:
    """Seconds of an all-reduce by trees: few messages deep, but every byte goes up and down.

    >>> tree_seconds(25e6, 4, 1e-5, 1e9), tree_seconds(25e6, 1, 1e-5, 1e9)
    (0.05004, 0.0)
    """
    depth = math.ceil(math.log(num_devices) / math.log(2) - 1e-9)
    return 2 * depth * latency + (2 * num_bytes / bandwidth if num_devices > 1 else 0.0)


def broadcast_seconds(num_bytes: float, num_devices: float, latency: float, bandwidth: float) -> float:
    """Seconds in which one device's bytes reach all others, doubling the devices that have them.

    >>> broadcast_seconds(1e6, 8, 1e-5, 1e9)
    0.00303
    """
    depth = math.ceil(math.log(num_devices) / math.log(2) - 1e-9)
    return depth * (latency + num_bytes / bandwidth)


def bus_bandwidth(num_bytes: float, num_devices: float, seconds: float) -> float:
    """Bytes a second on each device's link in an all-reduce of so many bytes: 2 (N - 1) / N * bytes / seconds.

    The measure of NVIDIA's nccl-tests: it does not depend on N, so it can be held against the link's own peak.

    >>> bus_bandwidth(25e6, 4, 0.0375)
    1000000000.0
    """
    return 2 * (num_devices - 1) / num_devices * num_bytes / seconds


def backward_end(backward: float, ready: Sequence[float], transfers: Sequence[float], stolen: float) -> float:
    """Seconds from the start of the backward pass until it, and the last bucket's all-reduce, have ended.

    ready: when each bucket's last gradient is there, in order. transfers: seconds of its all-reduce, alone. The link is
    serial. stolen: share of the device's own pace that a transfer takes from the pass beside it; 0 on a link that moves
    bytes by itself, near 1 where the core that computes also sends. With 0 it is max(backward, end of the last bucket).

    >>> [round(backward_end(0.1, [0.03, 0.1], [0.02, 0.02], stolen), 6) for stolen in (0.0, 1.0)]
    [0.12, 0.14]
    """
    now = 0.0
    done = 0.0
    for place in range(len(ready)):
        now = now + max(0.0, ready[place] - done)
        done = max(done, ready[place])
        now = now + transfers[place]
        done = min(backward, done + (1 - stolen) * transfers[place])
    return now + max(0.0, backward - done)


def exposed_share(exposed: float, total: float) -> float:
    """Share of the communication that the pass does not hide; overlap is 1 minus it.

    >>> exposed_share(0.01, 0.04), exposed_share(0.0, 0.0)
    (0.25, 0.0)
    """
    return exposed / total if total > 0 else 0.0


def strong_speedup(one_seconds: float, step_seconds: float) -> float:
    """How many times faster a step of the *same global batch* is: T_1(B) / T_N(B / N), G. M. Amdahl (1967).

    >>> strong_speedup(0.4, 0.125)
    3.2
    """
    return one_seconds / step_seconds


def weak_speedup(one_seconds: float, step_seconds: float, num_devices: float) -> float:
    """How many times more samples a second at the *same batch per device*: N T_1(B) / T_N(B), J. L. Gustafson (1988).

    >>> weak_speedup(0.1, 0.125, 4)
    3.2
    """
    return num_devices * one_seconds / step_seconds


def proportional_batches(batch_size: float, speeds: Sequence[float]) -> list[float]:
    """The global batch split so that unequal devices end together: B_i = B s_i / sum(s).

    >>> proportional_batches(260, [1, 1, 0.6])
    [100.0, 100.0, 60.0]
    """
    return [batch_size * speed / sum(speeds) for speed in speeds]


def whole_shares(shares: Sequence[float]) -> list[int]:
    """The shares as whole numbers of the same sum: what is cut off goes to those that lose most (T. Hare's method).

    >>> whole_shares(proportional_batches(48, [1, 1, 0.6]))
    [19, 18, 11]
    """
    whole = [math.floor(share) for share in shares]
    left = round(math.fsum(shares)) - sum(whole)
    order = sorted(range(len(shares)), key=lambda place: whole[place] - shares[place])
    for place in order[:left]:
        whole[place] += 1
    return whole


def stolen_share(busy_cores: float, num_local: float, threads: float, cores: float) -> float:
    """Share of a device's pace that its transfers take where devices are threads of a host's cores.

    busy_cores: cores that a transfer keeps busy on each device while nothing else runs. Where free cores take that on,
    nothing is stolen. Where they do not, a transfer costs the pass DISTURBS times as much: threads that take turns on a
    core wait for each other, and lose what the caches held.

    >>> [round(stolen_share(busy, 2, 1, 2), 6) for busy in (0.2, 0.4, 0.8)], stolen_share(0.8, 2, 1, 4)
    ([0.3, 0.6, 1.0], 0.0)
    """
    lacks = num_local * (threads + busy_cores) > cores
    return min(1.0, DISTURBS * busy_cores) / threads if lacks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Gradients that are all-reduced together."""

    num_bytes: int
    ready_seconds: float
    """Since the start of the backward pass."""


def buckets_of(num_bytes: Sequence[int], ready: Sequence[float], cap_mb: float | None = None) -> list[Bucket]:
    """Buckets as DistributedDataParallel fills them: in the order gradients come, each until it has its bytes.

    The gradient that fills a bucket is still in it. Where nobody names a size, the first is filled at 1 MiB and the
    others at 25; a size that is named, `cap_mb` in MiB, holds for the first too.

    >>> [bucket.num_bytes for bucket in buckets_of([600_000, 600_000, 20_000_000, 9_000_000, 4], [0.1] * 5)]
    [1200000, 29000000, 4]
    """
    found: list[Bucket] = []
    later = round((cap_mb or BUCKET_CAP_MB) * MIB)
    filled, limit = 0, later if cap_mb else FIRST_BUCKET_BYTES
    for place, size in enumerate(num_bytes):
        filled += size
        if filled >= limit or place == len(num_bytes) - 1:
            found.append(Bucket(num_bytes=filled, ready_seconds=max(ready[: place + 1])))
            filled, limit = 0, later
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one message costs, and how sure that is."""

    latency: float
    """Seconds."""
    bandwidth: float
    """Bytes a second, each way."""
    spread: float = 1.25
    """By which factor transfers may be off both ways."""


def fit_link(num_devices: int, num_bytes: Sequence[float], seconds: Sequence[float]) -> Link:
    """Latency and bandwidth from ring all-reduces of several sizes, each as far off in proportion as another.

    >>> link = fit_link(4, [1e4, 1e6, 1e8], [ring_seconds(size, 4, 2e-5, 1e9) for size in (1e4, 1e6, 1e8)])
    >>> round(link.latency, 9), round(link.bandwidth)
    (2e-05, 1000000000)
    """
    import numpy as np  # only here: it takes 0.1 s, and every command imports the forecasts of this file

    if num_devices < 2 or len(set(num_bytes)) < 2:
        raise UsageError("Latency and bandwidth need all-reduces of two sizes or more between two devices or more")
    sizes, times = np.asarray(num_bytes, dtype=float), np.asarray(seconds, dtype=float)
    messages = np.full_like(sizes, 2 * (num_devices - 1))
    moved = 2 * (num_devices - 1) / num_devices * sizes
    latency, pace = _positive(messages / times, moved / times)
    fitted = messages * latency + moved * pace
    off = float(np.sqrt(np.mean(np.log(np.maximum(fitted, 1e-12) / times) ** 2)))
    return Link(latency=latency, bandwidth=1 / pace if pace > 0 else math.inf, spread=math.exp(max(0.05, off)))


def _positive(first: "np.ndarray[Any, Any]", second: "np.ndarray[Any, Any]") -> tuple[float, float]:
    """Two factors of at least 0 by which the columns sum to 1 as nearly as they can."""
    import numpy as np

    columns = np.stack([first / first.max(), second / second.max()], axis=1)  # else powers of ten apart
    (a, b), *_ = np.linalg.lstsq(columns, np.ones(len(columns)), rcond=None)
    alone = [float(column.sum() / (column @ column)) for column in columns.T]
    a, b = (0.0, alone[1]) if a < 0 else (alone[0], 0.0) if b < 0 else (a, b)
    return float(a / first.max()), float(b / second.max())
