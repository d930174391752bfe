"""What the answer says in words: what was cut short, what stays open, and what would tell it."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

from legroom.laws.model_size import SizeLaw
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.search import planned

RULES = {
    "fixed": "Every size trained at the job's own rate, so a rate that suits one size better than another is part of "
    "what is seen; --rate-rule mup scales it",
    "mup": "Rates were scaled with the width from the job's own size on, for each kind of parameter as muP does; "
    "initial weights stayed as the job makes them",
}


WIDEST_PLATEAU = 100.0
"""Ends of the plateau's range further apart than this factor are no knowledge."""


def part(fraction: float) -> str:
    """A share of the data.

    >>> part(0.0625), part(1.0)
    ('6.25 % of the data', 'the whole data')
    """
    return "the whole data" if fraction == 1 else f"{100 * fraction:.3g} % of the data"


def told_plateau(law: SizeLaw, num_samples: float) -> float | None:
    """Where the plateau begins, where the trials tell."""
    low, high = law.plateau_range(num_samples)
    return law.plateau(num_samples) if 0 < high <= WIDEST_PLATEAU * low else None


def if_known(value: float, span: tuple[float, float]) -> float | None:
    """The value, where its range is no wider than itself.

    >>> if_known(0.5, (0.4, 0.7)), if_known(0.2, (-0.1, 0.5))
    (0.5, None)
    """
    return value if span[1] - span[0] <= abs(value) else None


def unknown(law: SizeLaw, evidence: Evidence, question: SizeQuestion) -> list[str]:
    """What the trials leave open, and what would narrow it."""
    return [*_wide(law, question), *_open_plateau(law, question), *_not_run(evidence, question)]


def _open_plateau(law: SizeLaw, question: SizeQuestion) -> Iterable[str]:
    low, high = law.plateau_range(question.num_samples)
    if told_plateau(law, question.num_samples) is None:
        least = "anywhere" if low <= 0 else f"at {low:,.3g} parameters or more" if math.isfinite(low) else "nowhere"
        most = f", at {high:,.3g} at most" if math.isfinite(high) and low < high else ""
        yield f"the plateau: by these trials it may begin {least}{most}. Larger {question.vary}s would tell"


def _wide(law: SizeLaw, question: SizeQuestion) -> Iterable[str]:
    what = f"--{question.vary}s"
    ways = {"k1": "--fractions further apart", "k2": f"{what} further apart"}
    for name, way in ways.items():
        value, (low, high) = getattr(law, name), getattr(law, f"{name}_range")
        if if_known(value, (low, high)) is None:
            yield (
                f"{name}: its range, {low:.2f} to {high:.2f}, is wider than its value, {value:.2f}, so none is told. "
                f"{way[0].upper() + way[1:] if way[0] != '-' else way}, more --seeds or a longer --budget narrow it"
            )


def _not_run(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    ran = {(trial.value, trial.fraction, trial.solver) for trial in evidence.trials}
    asked = dict.fromkeys((each.value, each.fraction, each.solver) for each in planned(question))
    missing = [place for place in asked if place not in ran]
    if missing:
        listed = "; ".join(f"{value:,} on {part(fraction)}" for value, fraction, _ in missing)
        yield f"{question.vary}s for which the budget did not last: {listed}. Raise --budget"


def notes(evidence: Evidence, question: SizeQuestion, told: dict[str, Any]) -> list[str]:
    """What a reader has to know to read the numbers."""
    found = itertools.chain(
        [RULES[question.rate_rule]], _ended(evidence, question), _judged(evidence, question), _target(question, told)
    )
    return list(found)


def _ended(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    """Trials that did not end as they should."""
    sayings = {
        "unsettled": "ended while their loss still fell, so at least as many updates are needed; the fit uses them so",
        "diverged": "diverged, and are left out of the fit",
        "out_of_memory": "ran out of memory, and are left out of the fit",
    }
    for outcome, saying in sayings.items():
        places = [trial.place for trial in evidence.trials if trial.result.outcome == outcome]
        if places:
            listed = "; ".join(
                f"{question.vary} {value:,} on {part(fraction)}" for value, fraction in dict.fromkeys(places)
            )
            yield f"{len(places)} of {len(evidence.trials)} trials {saying}: {listed}"


def _judged(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    if (fraction := evidence.judged_fraction()) < 1:
        yield f"Sizes are compared by time on {part(fraction)}: no two of them were trained on more"


def _target(question: SizeQuestion, told: dict[str, Any]) -> Iterable[str]:
    loss = told["target"]["loss"]
    if loss is not None and not any(each["seconds"] is not None for each in told["times"]):
        best = min((each["least_loss"] for each in told["times"]), default=None)
        nearest = f"; the least seen is {best:.4g}" if best is not None else ""
        yield f"No {question.vary} reached a loss of {loss:.4g}{nearest}. Name a higher --target"
