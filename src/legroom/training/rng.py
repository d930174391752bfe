"""Random numbers: seed every source that a job may draw from, read where each is, and put it back there."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
"""Kinds of sources that an object may have to itself."""


def seed_all(seed: int) -> None:
    """Seed the sources of this process."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def rng_state() -> dict[str, Any]:
    """Where each source of this process is."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        # Asking a GPU that nobody uses would take memory on it, and on the host.
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
    }


def restore_rng(state: Mapping[str, Any]) -> None:
    """Put each source of this process back."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))


def generator_state(generator: Any) -> Any:
    """Where a source of one's own is.

    >>> source = random.Random(0)
    >>> state, first = generator_state(source), source.random()
    >>> set_generator(source, state)
    >>> source.random() == first
    True
    """
    match generator:
        case random.Random():
            return generator.getstate()
        case np.random.Generator():
            return generator.bit_generator.state
        case _:  # numpy's older kind and torch's
            return generator.get_state()


def set_generator(generator: Any, state: Any) -> None:
    """Put it back there."""
    match generator:
        case random.Random():
            generator.setstate(state)
        case np.random.Generator():
            generator.bit_generator.state = state
        case _:
            generator.set_state(state)
