"""How much noise gradients carry: the batch at which noise and signal weigh the same, from two sizes of batch.

    E |g_B|^2 = G2 + S / B          B_noise = S / G2

g_B: gradient of a batch of B samples. G2: square of the gradient without noise. S: sum of the variances of one sample's
gradient. With |g|^2 seen at a small and at a big batch, both follow without bias:

    G2 = (B_big |g_big|^2 - B_small |g_small|^2) / (B_big - B_small)
    S  = (|g_small|^2 - |g_big|^2) / (1 / B_small - 1 / B_big)

From one update each is mostly noise, and a ratio of noisy numbers is biased: average S and G2 first, divide then.
S. McCandlish et al., An Empirical Model of Large-Batch Training (2018), appendix A.1. For optimizers that divide by the
size of the gradient, each square is weighed as they weigh it: |g|^2 = sum of g^2 / (sqrt(v) + eps).

B_noise is a first guess of the critical batch size, as exact as the Hessian is a multiple of one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

QUANTILE = 1.7
"""Of Student's t: 90 % for some twenty updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSquares:
    """Squares of gradients over some updates, each at a small batch and at the big one it is part of."""

    small_size: int
    big_size: int
    small: Sequence[float]
    big: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScale:
    """B_noise, and where it lies at 90 % by the spread of the updates."""

    batch_size: float
    range: tuple[float, float]
    """The upper end is infinite where noise may hide the signal."""
    num_updates: int


def noise_and_signal(small_square: float, big_square: float, small_size: int, big_size: int) -> tuple[float, float]:
    """S and G2 from the squares at two sizes.

    >>> noise_and_signal(1 + 100 / 16, 1 + 100 / 64, 16, 64)
    (100.0, 1.0)
    """
    noise = (small_square - big_square) / (1 / small_size - 1 / big_size)
    return noise, (big_size * big_square - small_size * small_square) / (big_size - small_size)


def noise_scale(parts: Sequence[GradientSquares]) -> NoiseScale | None:
    """B_noise over parts of a run; None where the signal is lost in the noise, or nothing was seen.

    Gradients shrink during a run: each part is measured in its own mean square, so that all weigh the same.

    >>> seen = GradientSquares(small_size=16, big_size=32, small=[7.25] * 4, big=[4.125] * 4)
    >>> noise_scale([seen])
    NoiseScale(batch_size=100.0, range=(100.0, 100.0), num_updates=4)
    """
    pairs = [pair for part in parts for pair in _pairs(part)]
    noise, signal = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    if not pairs or noise <= 0 or signal <= 0:
        return None
    value, spread = noise / signal, _spread(pairs, noise, signal)
    high = math.inf if spread is None else value * math.exp(spread)
    low = value / math.exp(math.log(1e3) if spread is None else spread)
    return NoiseScale(batch_size=value, range=(low, high), num_updates=len(pairs))


def _pairs(part: GradientSquares) -> list[tuple[float, float]]:
    """S and G2 of each update, in the part's mean square."""
    seen = [(a, b) for a, b in zip(part.small, part.big, strict=True) if math.isfinite(a) and math.isfinite(b)]
    mean = sum(big for _, big in seen) / len(seen) if seen else 0.0
    if mean <= 0:
        return []
    return [noise_and_signal(small / mean, big / mean, part.small_size, part.big_size) for small, big in seen]


def _spread(pairs: Sequence[tuple[float, float]], noise: float, signal: float) -> float | None:
    """Half-width of the interval in ln, by leaving out one update after the other; None where one of them decides."""
    num = len(pairs)
    if num < 2:
        return None
    others = [(noise - own, signal - its) for own, its in pairs]
    if any(rest <= 0 or its <= 0 for rest, its in others):
        return None
    logs = [math.log(rest / its) for rest, its in others]
    middle = sum(logs) / num
    return QUANTILE * math.sqrt((num - 1) / num * sum((each - middle) ** 2 for each in logs))
