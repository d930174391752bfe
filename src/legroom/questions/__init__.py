"""The questions legroom answers, one folder each. A new one is a folder and a name here."""

import importlib
import importlib.util
from types import ModuleType

QUESTIONS = (
    "memory",
    "speed",
    "loading",
    "rate",
    "sweep",
    "devices",
    "size",
    "variants",
    "plan",
    "prove",
    "check",
    "explain",
    "train",
    "vocabulary",
    "machine",
)
"""In the order of `legroom --help`, and of the page, which answers made of others open."""


def part_of(question: str, part: str) -> ModuleType | None:
    """One file of a question's folder, imported only now; None where the question has no such file."""
    name = f"{__name__}.{question}.{part}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
