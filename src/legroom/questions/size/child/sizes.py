"""Counts the parameters of the job's model at other sizes."""

import functools
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
    make = resize[request.vary]
    counts = [_count(make, request, value) for value in request.values]
    return SizesCounted(
        names=sorted(resize),
        own=_own(make, count(built.model)),
        num_parameters=[num for num in counts if num is not None],
        refused=[value for value, num in zip(request.values, counts, strict=True) if num is None],
    )


def _count(make: Maker, request: CountSizes, value: int) -> int | None:
    """Parameters there; None where the job refuses the value and nobody named it."""
    try:
        return count(build(make, request.vary, value))
    except Exception:
        if request.skips:
            return None
        raise


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


def _own(make: Maker, wanted: int) -> int | None:
    """The value with as many parameters as wanted, by doubling and halving; values the job refuses are no answer."""

    @functools.cache
    def at(value: int) -> int | None:
        try:
            return count(build(make, "", value))
        except Exception:
            return None

    low, high = 0, next((2**n for n in range(MOST_DOUBLINGS) if (at(2**n) or 0) >= wanted), 0)
    while high - low > 1:
        middle = (low + high) // 2
        if (found := at(middle)) is None:
            break
        low, high = (low, middle) if found >= wanted else (middle, high)
    return high if high and at(high) == wanted else None
