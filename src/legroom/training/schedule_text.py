"""Schedules as text, for settings and plans: "NAME" or "NAME:key=value,key=value", such as "polynomial:power=2"."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

from legroom.errors import UsageError
from legroom.job import OWN_SCHEDULE
from legroom.training import schedules
from legroom.training.schedules import Schedule

SCHEDULES = (
    "constant", "multistep", "polynomial", "polynomial-after-warmup", "linear", "cosine", "stable",
    "exponential", "one-cycle",
)  # fmt: skip

KEYS: Mapping[str, tuple[str, ...]] = {
    "constant": (),
    "multistep": ("epochs", "factor"),
    "polynomial": ("power",),
    "polynomial-after-warmup": ("power",),
    "linear": ("end",),
    "cosine": ("end",),
    "stable": ("cooldown", "shape"),
    "exponential": ("factor", "every", "after"),
    "one-cycle": ("rise", "start", "end"),
}
SHAPES = {"linear": 1.0, "sqrt": 0.5}
"""Powers of a cooldown, by their names."""
REQUIRED = {"multistep": "epochs", "exponential": "factor"}

Numbers = tuple[float, ...]
KINDS: Mapping[str, tuple[str, Callable[[Numbers], bool]]] = {
    "epochs": (
        "increasing numbers above 0 joined by +, as in 30+60+80",
        lambda numbers: all(low < high < math.inf for low, high in pairwise((0.0, *numbers))),
    ),
    "factor": ("a number above 0 and at most 1", lambda numbers: len(numbers) == 1 and 0 < numbers[0] <= 1),
    **dict.fromkeys(
        ("power", "every", "after"),
        ("a number above 0", lambda numbers: len(numbers) == 1 and 0 < numbers[0] < math.inf),
    ),
    **dict.fromkeys(
        ("rise", "start", "end", "cooldown"),
        ("a number from 0 to 1", lambda numbers: len(numbers) == 1 and 0 <= numbers[0] <= 1),
    ),
    "shape": (" or ".join(SHAPES), lambda numbers: numbers[0] in SHAPES.values()),
}
"""What each key must be, in words and as a test."""


def check_schedule(text: str) -> None:
    """Refuse what `make_schedule` would not understand.

    >>> check_schedule("multistep:epochs=30+60+80,factor=0.1")
    >>> check_schedule("cosine:power=2")
    Traceback (most recent call last):
    legroom.errors.UsageError: Schedule 'cosine:power=2' has the key 'power'; keys of cosine: end
    """
    if text != OWN_SCHEDULE:  # what the job's own scheduler makes of it, nobody knows before it is made
        read_schedule(text)


def make_schedule(
    text: str,
    *,
    num_steps: int,
    steps_per_epoch: float,
    warmup_steps: int = 0,
    warmup_start: float = 0.0,
    peak: float = 1.0,
) -> Schedule:
    """The schedule of a run: a warm-up from the share `warmup_start` of the peak, then what the text says.

    `multistep`, `polynomial`, `stable` and `exponential` count from step 0, warm-up included;
    `polynomial-after-warmup`, `linear` and `cosine` begin at the peak when warm-up ends. A warm-up longer than the run
    is cut off by its end: the rate never reaches the peak. `one-cycle` brings its own climb and refuses another.

    >>> rate = make_schedule("stable:cooldown=0.2,shape=sqrt", num_steps=100, steps_per_epoch=10, warmup_steps=10)
    >>> [round(rate(step), 2) for step in (0, 5, 10, 80, 85, 99)]
    [0.0, 0.5, 1.0, 1.0, 0.5, 0.03]

    You et al., Large-Batch Training for LSTM and Beyond (2018): batches of 32K, 90 epochs of 39 updates, 10 of them
    warm-up, power 2. By its formula the rate falls to (1 - 10/90)^2 = 0.79 of the peak when warm-up ends:

    >>> run = dict(num_steps=90 * 39, steps_per_epoch=39, warmup_steps=10 * 39, peak=32.0)
    >>> rate = make_schedule("polynomial:power=2", **run)
    >>> [round(rate(step), 2) for step in (0, 195, 389, 390, 3509)]
    [0.0, 16.0, 31.92, 25.28, 0.0]
    >>> rate = make_schedule("polynomial-after-warmup:power=2", **run)
    >>> [round(rate(step), 2) for step in (0, 195, 389, 390, 3509)]
    [0.0, 16.0, 31.92, 32.0, 0.0]
    """
    name, values = read_schedule(text)
    if name == "one-cycle" and warmup_steps:
        raise UsageError(
            f"Schedule {text!r} was asked for with {warmup_steps} warm-up steps; one-cycle climbs by itself. "
            "Set warmup_steps to 0 and say how long it climbs: one-cycle:rise=0.3"
        )
    for what, value, least in (("num_steps", num_steps, 1), ("warmup_steps", warmup_steps, 0)):
        if not value >= least:
            raise UsageError(f"{what} is {value!r}; it must be a whole number of at least {least}")
    if not 0 < steps_per_epoch < math.inf:
        raise UsageError(f"steps_per_epoch is {steps_per_epoch!r}; it must be a number above 0")
    if not 0 <= warmup_start <= 1:
        raise UsageError(f"warmup_start is {warmup_start!r}; it is a share of the peak, from 0 to 1")
    climb = schedules.warmup(warmup_steps, peak, warmup_start * peak)
    rest = _after_warmup(name, values, num_steps, warmup_steps, steps_per_epoch, peak)
    return schedules.join([climb, rest], at=[warmup_steps])


def _after_warmup(
    name: str, values: Mapping[str, Numbers], num_steps: int, warmup_steps: int, steps_per_epoch: float, peak: float
) -> Schedule:
    """The named schedule from the end of warm-up on."""

    def value(key: str, default: float) -> float:
        return values.get(key, (default,))[0]

    num_left = max(1, num_steps - warmup_steps)
    match name:
        case "multistep":
            steps = [epoch * steps_per_epoch for epoch in values["epochs"]]
            return schedules.skip(schedules.multistep(steps, value("factor", 0.1), peak), warmup_steps)
        case "polynomial":
            return schedules.skip(schedules.polynomial(num_steps, peak, value("power", 2.0)), warmup_steps)
        case "polynomial-after-warmup":
            return schedules.polynomial(num_left, peak, value("power", 2.0))
        case "linear":
            return schedules.linear(num_left, peak, value("end", 0.0) * peak)
        case "cosine":
            return schedules.cosine(num_left, peak, value("end", 0.0) * peak)
        case "stable":
            falls = schedules.stable(num_steps, peak, value("cooldown", 0.2), value("shape", 1.0))
            return schedules.skip(falls, warmup_steps)
        case "exponential":
            every = value("every", 1.0)
            after = value("after", every)
            cuts = schedules.exponential(peak, values["factor"][0], every * steps_per_epoch, after * steps_per_epoch)
            return schedules.skip(cuts, warmup_steps)
        case "one-cycle":
            return schedules.one_cycle(
                num_steps, peak, rise=value("rise", 0.3), start=value("start", 0.04), end=value("end", 4e-6)
            )
        case _:
            return schedules.constant(peak)


def read_schedule(text: str) -> tuple[str, dict[str, Numbers]]:
    """The name and the values of its keys."""
    name, colon, words = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name not in SCHEDULES:
        raise UsageError(f"{text!r} is no schedule. Write NAME or NAME:key=value,key=value; names: {_known()}")
    values: dict[str, Numbers] = {}
    for word in words.split(",") if colon else []:
        key, equals, number = (part.strip() for part in word.partition("="))
        if key not in KEYS[name]:
            keys = ", ".join(KEYS[name]) or "none"
            raise UsageError(f"Schedule {text!r} has the key {key!r}; keys of {name}: {keys}")
        if key in values:
            raise UsageError(f"Schedule {text!r} gives {key} twice; give it once")
        wanted, fits = KINDS[key]
        values[key] = (SHAPES.get(number, math.nan),) if key == "shape" else _numbers(number)
        if not fits(values[key]):
            raise UsageError(f"Schedule {text!r} has {key}{equals}{number}; {key} must be {wanted}")
    needed = REQUIRED.get(name)
    if needed and needed not in values:
        raise UsageError(f"Schedule {text!r} lacks {needed}: {KINDS[needed][0]}. Write {name}:{needed}=...")
    return name, values


def _numbers(text: str) -> Numbers:
    """Numbers joined by +; not-a-number, which fits no key, where it is no such text."""
    try:
        return tuple(float(number) for number in text.split("+"))
    except ValueError:
        return (math.nan,)


def _known() -> str:
    names = [f"{name} ({', '.join(KEYS[name])})" if KEYS[name] else name for name in SCHEDULES]
    return ", ".join([*names, f"{OWN_SCHEDULE} (the job's scheduler)"])
