"""What to do: recommendations with value, range, reason and evidence, in a plan people can read and edit."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legroom.job import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One number to use, and why."""

    name: str
    value: Any
    range: tuple[Any, Any] | None
    """Between which values it may lie; None where nothing was measured."""
    because: str
    evidence: list[str] = field(default_factory=list)
    """Kinds of the records it rests on; empty where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All recommendations for one job on one machine."""

    job: str
    options: Mapping[str, str]
    machine: str
    goal: str
    settings: Settings
    recommendations: list[Recommendation]
    notes: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)

    def value(self, name: str) -> Any:
        """What is recommended under that name; None where nothing is."""
        return next((item.value for item in self.recommendations if item.name == name), None)


def write_atomically(path: Path, text: str) -> None:
    """Write the file under another name and move it into place, so that nobody reads half of it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
