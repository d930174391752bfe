"""Ranges in words: 512..16384 doubles, 1e-5..1e-1 goes by decades, commas list."""

import math
from collections.abc import Callable
from typing import TypeVar

from legroom.errors import UsageError

MOST = 64
"""Values of a range: more are a slip of the hand."""
Number = TypeVar("Number", int, float)


def read_sizes(text: str, word: str = "--batch-sizes") -> tuple[int, ...]:
    """Whole numbers, doubled from the first of a range to its last.

    >>> read_sizes("512..16384"), read_sizes("32,100"), read_sizes("0..4", "--workers")
    ((512, 1024, 2048, 4096, 8192, 16384), (32, 100), (0, 1, 2, 4))
    """
    return _read(text, word, "512..16384 or 32,64,100", int, lambda size: max(1, 2 * size))


def read_rates(text: str) -> tuple[float, ...]:
    """Learning rates, ten times each from the first of a range to its last.

    >>> read_rates("1e-5..1e-1"), read_rates("0.03,0.1")
    ((1e-05, 0.0001, 0.001, 0.01, 0.1), (0.03, 0.1))
    """
    return _read(text, "--rates", "1e-5..1e-1 or 0.03,0.1,0.3", float, lambda rate: float(f"{10 * rate:.6g}"))


def _read(
    text: str, word: str, like: str, kind: Callable[[str], Number], following: Callable[[Number], Number]
) -> tuple[Number, ...]:
    found: list[Number] = []
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        try:
            first, last = kind(low), kind(high if dots else low)
        except ValueError:
            raise UsageError(f"{word} is {text!r}; write a range or a list, as {like}") from None
        if not (math.isfinite(first) and math.isfinite(last)):
            raise UsageError(f"{word} names {part.strip()!r}, which is no finite number; write numbers, as {like}")
        if first > last:
            raise UsageError(f"{word} has the range {part.strip()!r}; it goes from a number up to another, as {like}")
        while first <= last + 1e-9 * abs(last) and len(found) <= MOST:
            found.append(first)
            first = following(first)
            if first <= 0:
                break
    if len(found) > MOST:
        raise UsageError(f"{word} {text!r} names more than {MOST} values; name fewer")
    return tuple(dict.fromkeys(found))
