"""Environment variables of the processes that answer: the user's own, but for those an allocator setting is made of."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from legroom.errors import UsageError

Environment = Mapping[str, str | None]
"""What differs from the user's own environment, which a process otherwise inherits unchanged; None unsets."""
UNCHANGED: Environment = {}
STEADY_MALLOC: Environment = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""glibc then gives every large block back at once, so that a peak does not depend on what ran before.

Measured with this, the slope is stable to 0.1 %; without it, it depends on history. Proofs run without it.
"""
REUSE_MALLOC: Environment = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": f"{2**40}"}
"""glibc then keeps what a step frees for the next one, where it would give large blocks back and fetch them anew."""
PASSIVE_THREADS: Environment = {"OMP_WAIT_POLICY": "passive"}
"""Idle threads sleep instead of spinning: faster where other programs use the cores, slower on quiet ones."""
EXPANDABLE: Environment = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": None}
"""Segments that grow: what torch reserves nearly equals what it hands out, so larger batches fit."""
FIXED_SEGMENTS: Environment = {"PYTORCH_CUDA_ALLOC_CONF": None, "PYTORCH_ALLOC_CONF": None}
"""torch's default, whatever the user's own variables say; the second is their newer name."""

Allocator = Literal["expandable", "default"]
"""How torch's allocator keeps GPU memory: in segments that grow, or in fixed ones that leave gaps."""


def check_allocator(name: Any, where: str) -> None:
    """Refuse what is no allocator; `where` is the place it was named in."""
    if name not in get_args(Allocator):
        raise UsageError(f"{where} is {name!r}; it must be {' or '.join(get_args(Allocator))}")


def _is_whole(value: str, least: int) -> bool:
    return value.isascii() and value.isdecimal() and int(value) >= least


Fits = Callable[[str], bool]
TUNED: Mapping[str, tuple[Fits, str]] = {
    **dict.fromkeys(REUSE_MALLOC, (lambda value: _is_whole(value, 0), "a whole number")),
    **dict.fromkeys(PASSIVE_THREADS, (lambda value: value.lower() in ("active", "passive"), "active or passive")),
    "OMP_NUM_THREADS": (lambda value: _is_whole(value, 1), "a whole number of at least 1"),
}
"""Variables a plan may set, and what each must be; a file from elsewhere must not reach others, such as LD_PRELOAD."""


TELLING = ("OMP_", "KMP_", "MKL_", "MALLOC_")
"""How names of variables begin that change how fast steps are, or how much memory they keep."""


def user_variables() -> dict[str, str]:
    """Those of the user's own that are set: what was measured with others says little of now."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(TELLING)}


def environment_text(environment: Environment) -> str:
    """Variables as a plan and a shell write them.

    >>> environment_text({"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"})
    'OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1'
    """
    return " ".join(f"{name}={value}" for name, value in environment.items())


def read_environment(text: Any, where: str) -> dict[str, str]:
    """The variables in such a text; `where` is the place it stands in.

    >>> read_environment("OMP_NUM_THREADS=1", "plan.toml")
    {'OMP_NUM_THREADS': '1'}
    """
    pairs = [word.partition("=") for word in text.split()] if isinstance(text, str) else []
    if not pairs or any(name not in TUNED or not value for name, _, value in pairs):
        raise UsageError(
            f"{where} is {text!r}; it must be words such as OMP_NUM_THREADS=1, of {', '.join(sorted(TUNED))}"
        )
    for name, _, value in pairs:
        fits, wanted = TUNED[name]
        if not fits(value):
            raise UsageError(f"{where} sets {name} to {value!r}; it must be {wanted}")
    return {name: value for name, _, value in pairs}


def allocator_environment(device: str, allocator: Allocator | None) -> Environment:
    """Variables of a process with that allocator; without one, and on a CPU, the user's own environment."""
    if device == "cpu" or allocator is None:
        return UNCHANGED
    return EXPANDABLE if allocator == "expandable" else FIXED_SEGMENTS


def apply_environment(environment: Environment, own: Mapping[str, str]) -> dict[str, str]:
    """The user's own variables with those set and unset.

    >>> apply_environment({"A": "1", "B": None}, {"B": "2", "C": "3"})
    {'C': '3', 'A': '1'}
    """
    joined = {**own, **environment}
    return {name: value for name, value in joined.items() if value is not None}
