"""Samples that cannot be read: left out and counted, and an error where they are too many."""

import warnings
from collections.abc import Callable
from typing import TypeVar

from legroom.errors import UsageError

LIMIT_SHARE = 0.01
LEAST_LIMIT = 3

T = TypeVar("T")


class Skips:
    """Those of one process; more than a hundredth of the samples, and more than three, are an error."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples, self.limit = num_samples, max(LEAST_LIMIT, int(LIMIT_SHARE * num_samples))
        self.names: set[str] = set()

    def add(self, name: str, error: Exception) -> None:
        """Leave that one out."""
        if name in self.names:
            return
        self.names.add(name)
        count = f"{len(self.names)} of {self.num_samples:,}"
        if len(self.names) > self.limit:
            raise UsageError(
                f"{count} samples cannot be read; {self.limit} are let pass. The last is {name}: {error}. "
                "Mend them or take them away"
            )
        warnings.warn(f"{name} cannot be read ({error}) and is skipped: {count} so far", stacklevel=2)


def first_readable(read: Callable[[int], T], name: Callable[[int], str], index: int, skips: Skips) -> T:
    """The sample at that place; where it cannot be read, the next one that can."""
    for place in range(index, index + skips.num_samples):
        try:
            return read(place % skips.num_samples)
        except UsageError:
            raise
        except (OSError, SyntaxError, ValueError) as error:  # Pillow raises the second for broken PNG files
            skips.add(name(place % skips.num_samples), error)
    raise UsageError("No sample of this data can be read")
