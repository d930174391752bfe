"""Which rate, how many updates and which critical batch the evidence stands for."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from legroom.errors import NothingMeasured
from legroom.laws.steps import StepsLaw
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.critical import critical_batch
from legroom.questions.rate.evidence import Evidence, Trunk, gather
from legroom.questions.rate.records import RateQuestion
from legroom.questions.rate.search import COOLDOWN, behind, warmup_steps, winner

HARDLY = 1.15
"""Times the fewest updates, within which a rate is as good."""
LEAST_SPREAD = 1.3
"""The plausible range is never told narrower than by this factor to both sides: rates were tried a factor 3 apart."""
WIDEST_TOLD = 16.0
"""Ends of a range further apart than this factor are no knowledge: no number is told between them."""
RULES = {"sgd": "linear", "adam": "sqrt"}


def advise(records: Records, question: RateQuestion) -> RateAnswer:
    """The answer that the entries hold."""
    evidence = gather(records.entries, question)
    first = evidence.of_seed(int(question.settings["seed"]))
    best = winner(first, question)
    if best is None or best.last is None:
        raise NothingMeasured(_all_diverged(evidence))
    steps = _steps_by_seed(evidence, best, question.wanted)
    middle = statistics.median(steps)
    num_steps = round(middle) if math.isfinite(middle) else best.last.num_steps
    critical, critical_range = critical_batch(evidence, best)
    unknown = _unknown_batch(critical_range)
    critical = None if unknown else critical
    size, description = best.batch_size, records.description()
    cooldown = round(num_steps * COOLDOWN / (1 + COOLDOWN))
    schedule = f"stable:cooldown={cooldown / num_steps:.3g}"
    law = (
        None
        if critical is None
        else StepsLaw(least_steps=num_steps / (1 + critical / size), critical_batch_size=critical)
    )
    low, high = plausible_rates(first, best)
    found = {"learning_rate": best.learning_rate, "schedule": schedule, "warmup_steps": warmup_steps(question)}
    return RateAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *description.notes, *_notes(question, best, steps)],
        not_measured=unknown,
        recommendations=[_recommend(best.learning_rate, (low, high), middle, question)],
        device=question.device,
        method=question.method,
        batch_size=size,
        learning_rate=best.learning_rate,
        range=(low, high),
        warmup_steps=warmup_steps(question),
        cooldown_steps=cooldown,
        schedule=schedule,
        num_steps=num_steps,
        steps_range=(_known(min(steps)), _known(max(steps))),
        num_epochs=num_steps * size / max(1, description.num_samples or 1),
        target={"name": question.target_name, "value": question.target, "from": question.target_from},
        reached=math.isfinite(middle),
        best_value=question.signed(min(trunk.best for trunk in first)),
        sensitivity=sensitivity(first, best),
        rule=RULES[question.optimizer],
        critical_batch_size=critical,
        critical_range=critical_range,
        law={} if law is None else {"least_steps": law.least_steps, "critical_batch_size": law.critical_batch_size},
        num_trials=len(evidence.trunks),
        num_samples=evidence.num_samples,
        baseline_steps=question.own_steps,
        baseline_seconds=question.baseline_seconds,
        step_seconds=evidence.update_seconds,
        curves=[_curve(trunk, question) for trunk in evidence.trunks],
        settings={**question.settings, **found},
        baseline=dict(description.baseline),
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _steps_by_seed(evidence: Evidence, best: Trunk, wanted: float) -> list[float]:
    same = [trunk for trunk in evidence.trunks if trunk.learning_rate == best.learning_rate]
    return [math.inf if (steps := trunk.steps_to(wanted)) is None else steps for trunk in same if trunk.points]


def plausible_rates(trunks: Sequence[Trunk], best: Trunk) -> tuple[float, float]:
    """Rates around the best that need hardly more updates, by the parabola through those tried."""
    curve = parabola(trunks, best)
    if curve is None:
        return best.learning_rate / LEAST_SPREAD**2, best.learning_rate * LEAST_SPREAD**2
    width = max(LEAST_SPREAD, math.exp(math.sqrt(math.log(HARDLY) / curve)))
    return best.learning_rate / width, best.learning_rate * width


def parabola(trunks: Sequence[Trunk], best: Trunk) -> float | None:
    """How steeply ln updates rises with the square of ln rate's distance from the best; None where nobody can tell."""
    far = [
        (math.log(trunk.learning_rate / best.learning_rate), behind(trunk.points[-1], best))
        for trunk in trunks
        if trunk is not best
    ]
    known = [(math.log(max(times, 1.0)), x * x) for x, times in far if math.isfinite(times) and times > 1]
    slope = [rise / square for rise, square in known if square > 0]
    return statistics.median(slope) if slope and statistics.median(slope) > 0 else None


def sensitivity(trunks: Sequence[Trunk], best: Trunk) -> dict[str, float]:
    """Updates at half and at twice the rate, as multiples."""
    curve = parabola(trunks, best)
    return {} if curve is None else dict.fromkeys(("half", "twice"), math.exp(curve * math.log(2) ** 2))


def _notes(question: RateQuestion, best: Trunk, steps: Sequence[float]) -> list[str]:
    notes, target = [], f"{question.target_name} {question.target:.4g}"
    num_missed = sum(not math.isfinite(each) for each in steps)
    if num_missed > len(steps) / 2:
        notes.append(
            f"{num_missed} of {len(steps)} seeds did not reach {target}; the best that this rate gave is "
            f"{question.signed(best.best):.4g}. Raise --budget, or name a target that the job can reach"
        )
    elif num_missed:
        notes.append(f"{num_missed} of {len(steps)} seeds did not reach {target}")
    if question.target_from == "forecast":
        notes.append(f"{target} is a forecast of what the job's own settings reach, from the beginning of their run")
    return notes


def _unknown_batch(span: tuple[float, float] | None) -> list[str]:
    """A sentence where the branches do not tell the critical batch size."""
    if span is None:
        return ["the critical batch size: no branch at another batch was run"]
    low, high = span
    told = f"the critical batch size: its branches leave it between {low:,.3g} and {high:,.0f}"
    return [told] if high > WIDEST_TOLD * low else []


def _recommend(rate: float, span: tuple[float, float], middle: float, question: RateQuestion) -> Recommendation:
    target = f"{question.target_name} {question.target:.4g}"
    reaches = f"it reaches {target} in {middle:,.0f} updates, in the middle of the seeds"
    because = reaches if math.isfinite(middle) else f"no rate reached {target}; this one came nearest"
    return Recommendation(name="learning_rate", value=rate, range=span, because=because, evidence=["grown"])


def _curve(trunk: Trunk, question: RateQuestion) -> dict[str, Any]:
    return {
        "learning_rate": trunk.learning_rate,
        "batch_size": trunk.batch_size,
        "seed": trunk.seed,
        "num_steps": [point.num_steps for point in trunk.points],
        "value": [question.signed(point.value) for point in trunk.points],
        "diverged_at": trunk.diverged_at,
    }


def _all_diverged(evidence: Evidence) -> str:
    rates = [trunk.learning_rate for trunk in evidence.trunks]
    if not rates:
        return "The budget did not last for a single trial. Raise --budget"
    span = f"from {min(rates):.3g} to {max(rates):.3g}"
    return f"Every trial diverged, at rates {span}. Warm up longer, or clip the gradient's norm"
