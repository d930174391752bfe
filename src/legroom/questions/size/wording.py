"""What the answer says in words: what was cut short, what stays open, and what would tell it."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from legroom.laws.model_size import SizeLaw
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.fits import varied
from legroom.questions.size.planning import planned
from legroom.questions.size.plateau import Plateau, open_words
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.scores import tells_losses
from legroom.questions.size.trials import Trial

RULES = {
    "fixed": "Every size trained at the job's own rate, so a rate that suits one size better than another is part of "
    "what is seen; --rate-rule mup scales it",
    "mup": "Rates were scaled with the width from the job's own size on, for each kind of parameter as muP does; "
    "initial weights stayed as the job makes them",
}


def part(fraction: float) -> str:
    """A share of the data.

    >>> part(0.0625), part(1.0)
    ('6.25 % of the data', 'the whole data')
    """
    return "the whole data" if fraction == 1 else f"{100 * fraction:.3g} % of the data"


def if_known(value: float, span: tuple[float, float]) -> float | None:
    """The value, where its range is no wider than itself.

    >>> if_known(0.5, (0.4, 0.7)), if_known(0.2, (-0.1, 0.5))
    (0.5, None)
    """
    return value if span[1] - span[0] <= abs(value) else None


def holds_one(law: SizeLaw) -> dict[str, bool | None]:
    """Whether the ranges of both exponents hold 1; None of one that is not told."""
    return {
        name: low <= 1 <= high if if_known(value, (low, high)) is not None else None
        for name, value, (low, high) in (("k1", law.k1, law.k1_range), ("k2", law.k2, law.k2_range))
    }


def unknown(
    law: SizeLaw, plateau: Plateau, held_out: Sequence[dict[str, Any]], evidence: Evidence, question: SizeQuestion
) -> list[str]:
    """What the trials leave open, and what would narrow it."""
    words = open_words(plateau, question.vary)
    wide, alone = _wide(law, question), _alone(evidence, question)
    return [*wide, *alone, *([words] if words else []), *_losses(held_out), *_not_run(evidence, question)]


def _wide(law: SizeLaw, question: SizeQuestion) -> Iterable[str]:
    sizes = f"--{question.vary}s"
    ways = {"a": f"--fractions and {sizes} further apart", "k1": "--fractions further apart"}
    ways |= {"k2": f"{sizes} further apart", "b": f"larger {sizes}"}
    for name, way in ways.items():
        value, (low, high) = getattr(law, name), getattr(law, f"{name}_range")
        if if_known(value, (low, high)) is None:
            wider = f"{name}: its range, {short(low)} to {short(high)}, is wider than its value, {short(value)}"
            yield f"{wider}, so none is told; {way}, more --seeds or a longer --budget narrow it"


def _alone(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    """What was not varied, so that twice as much of it is not told."""
    ways = (("model", question.vary, f"{question.vary}s"), ("data", "share of the data", "fractions"))
    for is_varied, (what, one, option) in zip(varied(evidence.of()), ways, strict=True):
        if not is_varied:
            yield f"twice the {what}: trials settled at one {one} alone. Name more --{option}"


def short(value: float) -> str:
    """A number of a law, which may be of any size.

    >>> short(0.7512), short(-0.04), short(1668.2), short(0.00031), short(3.2e9)
    ('0.75', '-0.04', '1,668', '3.1e-04', '3.2e+09')
    """
    if value and not 0.001 <= abs(value) < 1e6:
        return f"{value:.1e}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _losses(held_out: Sequence[dict[str, Any]]) -> Iterable[str]:
    if not tells_losses(held_out):
        missed = [each for each in held_out if "loss_inside" in each and not each["loss_inside"]]
        scored = sum("loss_inside" in each for each in held_out)
        yield (
            f"the loss at twice the model or the data: its law missed {len(missed)} of {scored} losses held out of the "
            "fit, so none is told. --fractions and sizes further apart show more of it"
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
        [RULES[question.rate_rule]],
        _refused(question),
        _ended(evidence, question),
        _chance(evidence, question),
        _judged(evidence, question),
        _target(question, told),
        _solvers(told["solvers"]),
    )
    return list(found)


def _refused(question: SizeQuestion) -> Iterable[str]:
    if question.refused_values:
        listed = ", ".join(map(str, question.refused_values))
        yield f"The job cannot make a model of {question.vary} {listed}, which is left out"


def _ended(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    """Trials that did not end as they should."""
    bound = "so at least as many updates are needed; the fit uses them so"
    sayings = {
        "still_fell": f"ended while their loss still fell, {bound}",
        "unsettled": f"ended before it was sure that their loss had come to its minimum, {bound}",
        "only_rose": "learned next to nothing on so little data, as their loss rose without falling by 5 % first, and "
        "are left out of the fit",
        "diverged": "diverged, and are left out of the fit",
        "out_of_memory": "ran out of memory, and are left out of the fit",
        "failed": "failed, and are left out of the fit",
    }
    for ending, saying in sayings.items():
        ended = [trial for trial in evidence.trials if _ending(trial) == ending]
        if ended:
            places = dict.fromkeys(trial.place for trial in ended)
            listed = "; ".join(f"{question.vary} {value:,} on {part(fraction)}" for value, fraction in places)
            why = "".join(f" ({why})" for why in dict.fromkeys(trial.result.why for trial in ended) if why)
            yield f"{len(ended)} of {len(evidence.trials)} trials {saying}: {listed}{why}"


def _ending(trial: Trial) -> str:
    """How it ended; of one whose time was over, whether its loss still fell."""
    outcome = trial.result.outcome
    return "still_fell" if outcome == "unsettled" and trial.still_fell else outcome


def _chance(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    places = dict.fromkeys(trial.place for trial in evidence.trials if trial.at_chance)
    if places:
        listed = "; ".join(f"{question.vary} {value:,} on {part(fraction)}" for value, fraction in places)
        yield f"Scored no better than a model that learned nothing, and are left out of the fit: {listed}"


def _judged(evidence: Evidence, question: SizeQuestion) -> Iterable[str]:
    fraction = evidence.judged_fraction()
    if fraction < 1:
        whole = [value for value in question.values if evidence.at(value, 1.0)]
        why = "the job's own came to no minimum on more" if len(whole) > 1 else "no two of them were trained on more"
        yield f"Sizes are compared by time on {part(fraction)}: {why}"
    left = [value for value in question.values if not evidence.at(value, fraction)]
    if left:
        listed = ", ".join(f"{value:,}" for value in left)
        yield f"Not compared by time, since not trained on {part(fraction)}: {question.vary} {listed}"


def _target(question: SizeQuestion, told: dict[str, Any]) -> Iterable[str]:
    target = told["target"]
    loss = target["loss"]
    if target["from"] == "largest tried":
        largest = f"{target['value']:,}, the largest that {'settled' if target['settled'] else 'ran'}"
        why, way = _not_own(question)
        yield f"{why}, so the loss to reach is what {largest}, came to. Name a --target, or {way}"
    if loss is not None and not any(each["seconds"] is not None for each in told["times"]):
        best = min((each["least_loss"] for each in told["times"]), default=None)
        nearest = f"; the least seen is {best:.4g}" if best is not None else ""
        yield f"No {question.vary} reached a loss of {loss:.4g}{nearest}. Name a higher --target"


def _not_own(question: SizeQuestion) -> tuple[str, str]:
    """Why the job's own size does not set the loss to reach, and what helps."""
    own, vary = question.own_value, question.vary
    if own is None:
        return f"No {vary} is known to be the job's own", f"give resize one that makes the job's own {vary}"
    if own not in question.values:
        return f"The job's own {vary}, {own:,}, is not among the {vary}s tried", f"have it among --{vary}s"
    return f"The job's own {vary}, {own:,}, came to no minimum here", "raise --budget"


def _solvers(solvers: Sequence[dict[str, Any]]) -> Iterable[str]:
    if solvers:
        own = {True: "the job's own rate", False: "the best of three at the smallest size"}
        listed = "; ".join(f"{each['solver']} at {each['learning_rate']:g}, {own[each['is_own']]}" for each in solvers)
        yield f"Optimizers are compared at one rate each: {listed}. A rate that suits one less is part of what is seen"
