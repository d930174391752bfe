"""Rules that carry a learning rate and its warm-up from one batch size to another.

With k = new batch size / old one:

    rule      rate        warm-up epochs    also                                           source
    linear    k           1                 warm-up starts at the old rate                 Goyal et al. 2017
    sqrt      sqrt(k)     1                                                                Krizhevsky 2014
    legw      sqrt(k)     k                 warm-up starts at 0                            You et al. 2018
    adam      sqrt(k)     1                 1-b -> k(1-b) for both betas, eps/sqrt(k)      Malladi et al. 2022

None of them knows the job's critical batch size; far beyond it no rule holds.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from legroom.errors import UsageError

SCALING_RULES = ("linear", "sqrt", "legw", "adam")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What belongs to one batch size.

    >>> recipe = Recipe(batch_size=1024, learning_rate=2**2.5, warmup_epochs=0.3125)
    >>> recipe.warmup_steps(steps_per_epoch=1251)
    391
    """

    batch_size: int
    """Samples in one update, over all devices and accumulated passes."""
    learning_rate: float
    """The peak rate."""
    warmup_epochs: float = 0.0
    """Epochs over which the rate climbs to its peak."""
    warmup_start: float = 0.0
    """Rate at which warm-up starts, as a share of the peak."""
    betas: tuple[float, float] | None = None
    """Adam's; None for other optimizers."""
    eps: float | None = None
    """Adam's; None for other optimizers."""

    def __post_init__(self) -> None:
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise UsageError(f"batch_size is {self.batch_size!r}; it must be a whole number of at least 1")
        if not 0 < self.learning_rate < math.inf:
            raise UsageError(f"learning_rate is {self.learning_rate!r}; it must be a number above 0")
        if not 0 <= self.warmup_epochs < math.inf:
            raise UsageError(f"warmup_epochs is {self.warmup_epochs!r}; it must be a number of at least 0")
        if not 0 <= self.warmup_start <= 1:
            raise UsageError(f"warmup_start is {self.warmup_start!r}; it is a share of the peak, from 0 to 1")
        if self.betas is not None and not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"betas are {self.betas!r}; each must be at least 0 and below 1")
        if self.eps is not None and not 0 <= self.eps < math.inf:
            raise UsageError(f"eps is {self.eps!r}; it must be a number of at least 0")

    def warmup_steps(self, steps_per_epoch: float) -> int:
        """Updates of the warm-up, to the nearest whole one."""
        return round(self.warmup_epochs * steps_per_epoch)


def scale(rule: str, recipe: Recipe, batch_size: int) -> Recipe:
    """What to use at that batch size, by the rule of that name.

    >>> scale("legw", Recipe(batch_size=128, learning_rate=0.1, warmup_epochs=0.5), 512)
    Recipe(batch_size=512, learning_rate=0.2, warmup_epochs=2.0, warmup_start=0.0, betas=None, eps=None)
    """
    if rule not in SCALING_RULES:
        raise UsageError(f"{rule!r} is no scaling rule; rules: {', '.join(SCALING_RULES)}")
    return RULES[rule](recipe, batch_size)


def linear(recipe: Recipe, batch_size: int) -> Recipe:
    """The rate grows as the batch does; warm-up climbs from the old rate, in as many epochs as before.

        rate -> k * rate          start of warm-up -> rate / (k * rate)

    P. Goyal et al., Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour (2017), sections 2.1 and 2.2: rate 0.1
    at 256, warm-up of 5 epochs, up to 8192.

    >>> large = linear(Recipe(batch_size=256, learning_rate=0.1, warmup_epochs=5), 8192)
    >>> large.learning_rate, large.warmup_epochs, large.warmup_start * large.learning_rate
    (3.2, 5, 0.1)
    """
    scaled = _with_rate(recipe, batch_size, power=1.0)
    return replace(scaled, warmup_start=min(1.0, recipe.learning_rate / scaled.learning_rate))


def sqrt(recipe: Recipe, batch_size: int) -> Recipe:
    """The rate grows as the square root of the batch, to keep the variance in the gradient's expectation constant.

        rate -> sqrt(k) * rate

    A. Krizhevsky, One weird trick for parallelizing convolutional neural networks (2014). Table 4 of Y. You's talk
    (see `legw`), as powers of two:

    >>> base = Recipe(batch_size=32, learning_rate=1.0)
    >>> [(size, round(math.log2(sqrt(base, size).learning_rate), 9)) for size in (32, 64, 128, 256, 512, 1024)]
    [(32, 0.0), (64, 0.5), (128, 1.0), (256, 1.5), (512, 2.0), (1024, 2.5)]
    """
    return _with_rate(recipe, batch_size, power=0.5)


def legw(recipe: Recipe, batch_size: int) -> Recipe:
    """Linear-epoch gradual warm-up: the square root rule, and k times the warm-up epochs, from rate 0.

        rate -> sqrt(k) * rate          warm-up epochs -> k * warm-up epochs

    So the number of warm-up *updates* stays the same, and a recipe without warm-up gets none. Y. You et al.,
    Large-Batch Training for LSTM and Beyond, UCB/EECS-2018-138. Table 5 of the talk, for w = 1:

    >>> base = Recipe(batch_size=32, learning_rate=1.0, warmup_epochs=1)
    >>> [(size, legw(base, size).warmup_epochs) for size in (32, 64, 128, 256, 512, 1024)]
    [(32, 1.0), (64, 2.0), (128, 4.0), (256, 8.0), (512, 16.0), (1024, 32.0)]

    Table 6, ResNet-50 on ImageNet with LARS: batch size, rate as a power of two, warm-up epochs. Last, the updates:

    >>> base = Recipe(batch_size=1024, learning_rate=2**2.5, warmup_epochs=0.3125)
    >>> for size in (32768, 16384, 8192, 4096, 2048, 1024):
    ...     large = legw(base, size)
    ...     num_steps = large.warmup_steps(1281167 / size)
    ...     print(size, round(math.log2(large.learning_rate), 9), large.warmup_epochs, num_steps)
    32768 5.0 10.0 391
    16384 4.5 5.0 391
    8192 4.0 2.5 391
    4096 3.5 1.25 391
    2048 3.0 0.625 391
    1024 2.5 0.3125 391
    """
    scaled = _with_rate(recipe, batch_size, power=0.5)
    return replace(scaled, warmup_epochs=recipe.warmup_epochs * batch_size / recipe.batch_size, warmup_start=0.0)


def adam(recipe: Recipe, batch_size: int) -> Recipe:
    """The square root rule for Adam, which also forgets faster: its averages span as many samples as before.

        rate -> sqrt(k) * rate          1 - b -> k * (1 - b) for both betas          eps -> eps / sqrt(k)

    S. Malladi et al., On the SDEs and Scaling Rules for Adaptive Gradient Algorithms (NeurIPS 2022). Holds only while
    k * (1 - b) < 1: with the usual 0.9, for less than ten times the batch.

    >>> large = adam(Recipe(batch_size=32, learning_rate=0.001, betas=(0.9, 0.999), eps=1e-8), 128)
    >>> large.learning_rate, tuple(round(beta, 9) for beta in large.betas), large.eps
    (0.002, (0.6, 0.996), 5e-09)
    """
    if recipe.betas is None or recipe.eps is None:
        raise UsageError("The adam rule scales betas and eps as well; give both, as in betas=(0.9, 0.999), eps=1e-8")
    scaled = _with_rate(recipe, batch_size, power=0.5)
    ratio = batch_size / recipe.batch_size
    least = min(recipe.betas)
    # 10 * (1 - 0.9) is 0.9999999999999998: without the margin, a beta of 2e-16 would pass for one.
    if ratio * (1 - least) >= 1 - 1e-9:
        largest = math.ceil(recipe.batch_size / (1 - least) - 1e-6) - 1
        raise UsageError(
            f"The adam rule cannot go from batch size {recipe.batch_size} to {batch_size}: "
            f"{ratio:g} * (1 - {least:g}) = {ratio * (1 - least):.3g} must be below 1. "
            f"It goes up to {largest}; beyond, use the sqrt rule"
        )
    first, second = (1 - ratio * (1 - beta) for beta in recipe.betas)
    return replace(scaled, betas=(first, second), eps=recipe.eps / math.sqrt(ratio))


def _with_rate(recipe: Recipe, batch_size: int, power: float) -> Recipe:
    """The recipe at the new batch size, its rate multiplied by k^power."""
    if not isinstance(batch_size, int) or batch_size < 1:
        raise UsageError(f"batch_size is {batch_size!r}; it must be a whole number of at least 1")
    rate = recipe.learning_rate * (batch_size / recipe.batch_size) ** power
    return replace(recipe, batch_size=batch_size, learning_rate=rate)


RULES: Mapping[str, Callable[[Recipe, int], Recipe]] = {"linear": linear, "sqrt": sqrt, "legw": legw, "adam": adam}
