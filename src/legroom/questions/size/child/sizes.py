"""Counts the parameters of the job's model at other sizes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from legroom.child.built_job import BuiltJob, blaming
from legroom.errors import JobRaised
from legroom.questions.size.records import CountSizes, SizesCounted

MOST_DOUBLINGS = 20
Maker = Callable[[int], Callable[[], Any]]
"""A value of Job.resize."""


def count_sizes(request: CountSizes, built: BuiltJob) -> SizesCounted:
    """Parameters at each value, and the value at which there are as many as in the job's own model."""
    resize = built.job.resize
    if request.vary not in resize:
        return SizesCounted(names=sorted(resize), own=None, num_parameters=[])
    sizes = _Sizes(resize[request.vary], request.vary)
    own = _own(sizes, count(built.model))
    counts = [sizes.at(value) for value in request.values] if request.skips else [*map(sizes.count, request.values)]
    return SizesCounted(
        names=sorted(resize),
        own=own,
        num_parameters=[num for num in counts if num is not None],
        refused=[value for value, num in zip(request.values, counts, strict=True) if num is None],
        why=sizes.why,
    )


class _Sizes:
    """Parameters by value, each built once."""

    def __init__(self, make: Maker, vary: str) -> None:
        self.make, self.vary = make, vary
        self.why = ""
        """What the job raised, at the first value since one was made."""
        self._found: dict[int, int | None] = {}

    def at(self, value: int) -> int | None:
        """Parameters there; None where the job refuses the value."""
        if value not in self._found:
            try:
                self._found[value], self.why = self.count(value), ""
            except Exception as error:
                self._found[value] = None
                self.why = self.why or f"at {value:,} it raised {type(error).__name__}: {error}"
        return self._found[value]

    def count(self, value: int) -> int:
        """The same, and what the job raises."""
        return count(build(self.make, self.vary, value))


def count(model: nn.Module) -> int:
    """Parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def build(make: Maker, vary: str, value: int) -> nn.Module:
    """The model at that value, without memory for its parameters where the job's code allows."""
    try:
        with torch.device("meta"):
            model = make(value)()
    except Exception:  # code that computes with its parameters as it makes them cannot do so without them
        with blaming(f'resize["{vary}"]({value})'):
            model = make(value)()
    if not isinstance(model, nn.Module):
        raise JobRaised(
            f'resize["{vary}"]({value})() returned a {type(model).__name__}; legroom needs a torch.nn.Module. '
            f'Write resize={{"{vary}": lambda value: (lambda: Model(value))}}'
        )
    return model


def _own(sizes: _Sizes, wanted: int) -> int | None:
    """The value with as many parameters as wanted, by doubling and halving; values the job refuses are no answer."""
    at = sizes.at
    low, high = 0, next((2**n for n in range(MOST_DOUBLINGS) if (at(2**n) or 0) >= wanted), 0)
    while high - low > 1:
        middle = (low + high) // 2
        if (found := at(middle)) is None:
            break
        low, high = (low, middle) if found >= wanted else (middle, high)
    return high if high and at(high) == wanted else None
