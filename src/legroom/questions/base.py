"""What all questions have: an answer with its circumstances, recommendations, foreseen cost, shared checks."""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from legroom.errors import UsageError
from legroom.setting_rules import PRECISIONS

START_SECONDS = 3.0
"""A child's start: importing torch takes 2 s on two cores, building a small job 1 s."""


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
class Answer:
    """An answer with its circumstances. Each question adds its own fields."""

    job: str
    machine: str
    seconds: float
    """What asking cost."""
    notes: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)
    recommendations: list[Recommendation] = field(default_factory=list)

    @property
    def files(self) -> tuple[Path, ...]:
        """What was written beside logbook, answer and report."""
        return ()

    @property
    def exit_code(self) -> int:
        """Of the command that prints it."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """The answer as plain JSON values, with the names scripts rely on."""
        from legroom import __version__

        return {"legroom_version": __version__, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenProbe:
    """Some probes of one kind."""

    what: str
    num_probes: tuple[int, int]
    """At least and at most."""
    seconds: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen(Answer):
    """The probes a command would run."""

    probes: list[ForeseenProbe]


def foreseen_probe(what: str, num_probes: tuple[int, int], each_seconds: float) -> ForeseenProbe:
    """So many probes of one kind, each of which takes so long."""
    least, most = num_probes
    return ForeseenProbe(what=what, num_probes=num_probes, seconds=(least * each_seconds, most * each_seconds))


def typical_seconds(entries: Iterable[Any], kind: type, otherwise: float) -> float:
    """Seconds that a request of that kind took before, in the middle."""
    seconds = [entry.seconds for entry in entries if isinstance(entry.request, kind)]
    return statistics.median(seconds) if seconds else otherwise


def read_target(text: str, *others: str) -> tuple[Literal["loss", "score"], float]:
    """The name and the value of a target; `others` are words that may stand in its place.

    >>> read_target("score=0.97")
    ('score', 0.97)
    """
    name, _, word = text.partition("=")
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if name not in ("loss", "score") or not math.isfinite(value):
        known = " or ".join(["score=0.97, loss=0.1", *others]) if others else "score=0.97 or loss=0.1"
        raise UsageError(f"The target {text!r} cannot be read. Write {known}")
    return ("loss" if name == "loss" else "score"), value


def check_word(what: str, word: Any, known: Collection[Any]) -> None:
    """Refuse a word that is not among those known.

    >>> check_word("rule", "legroom", ("legroom", "thesis"))
    """
    if word not in known:
        raise UsageError(f"There is no {what} {word!r}. Known: {', '.join(map(str, known))}")


def check_precision(precision: str | None) -> None:
    """Refuse a precision that there is not; None leaves it to the job."""
    if precision is not None:
        check_word("precision", precision, PRECISIONS)


def check_counts(numbers: Mapping[str, int | None]) -> None:
    """Refuse a number below one, by the name of its option; None was not given.

    >>> check_counts({"--seeds": 3, "--batch-size": None})
    """
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1")


def check_budget(budget: float, least: float) -> None:
    """Refuse seconds that are too few to begin with."""
    if not least <= budget < math.inf:
        raise UsageError(f"--budget is {budget:g} s; it must be at least {least:g} s")
