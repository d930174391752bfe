"""`--method range`: the rate at which the loss falls fastest while the rate climbs, over several seeds.

The test of L. Smith, Cyclical Learning Rates for Training Neural Networks (2017), with the slope taken over ln rate. It
costs a hundred updates a seed and knows nothing of a target or of the length of a run.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from legroom.errors import NothingMeasured
from legroom.logbook import Records
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.evidence import gather
from legroom.questions.rate.ramps import RampReading, middle, read_ramp, slope_at, smooth
from legroom.questions.rate.records import RateQuestion, RateRamp
from legroom.questions.rate.telling import recommend, tell
from legroom.session import Session

FARTHEST = 10.0
"""Between the rates of two seeds, as a factor: beyond it their middle is no rate that any of them tells."""


def find(session: Session, question: RateQuestion) -> None:
    """Ramps on as many seeds as asked for."""
    for more in range(question.num_seeds):
        session.progress("ramp of the rate", 0.02 + 0.03 * more / question.num_seeds)
        session.ask(question.ramp(more))


def advise(records: Records, question: RateQuestion) -> RateAnswer:
    """The middle of the seeds' steepest rates, and their spread."""
    ramps = gather(records.entries, question).ramps
    readings = [read_ramp(ramp) for ramp in ramps]
    steepest = sorted(reading.steepest for reading in readings if reading.steepest is not None)
    rate = middle(steepest)
    if rate is None:
        raise NothingMeasured(_why_nothing(ramps, readings, question))
    if steepest[-1] > FARTHEST * steepest[0]:
        raise NothingMeasured(_why_unknown(steepest))
    ends = [reading.lowest for reading in readings if reading.lowest is not None]
    span = (min(steepest), max(max(steepest), min(ends)))
    seen = f"{len(steepest)} of {len(ramps)} seeds"
    because = f"there the loss falls fastest while the rate climbs, in the middle of {seen}"
    return tell(
        records,
        question,
        recommend(rate, span, because, "rate_ramp"),
        notes=_notes(seen, steepest, readings),
        not_measured=["updates to a target, and the critical batch size: a range test runs no training"],
        warmup_steps=int(question.settings["warmup_steps"]),
        cooldown_steps=0,
        schedule=str(question.settings["schedule"]),
        num_steps=0,
        steps_range=(None, None),
        target={"name": question.target_name, "value": None, "from": "none", "range": None},
        reached=False,
        best_value=None,
        sensitivity=slope_ratios(ramps, rate),
        num_trials=len(ramps),
        num_samples=sum(ramp.num_samples for ramp in ramps),
        curves=[_curve(ramp, place, question) for place, ramp in enumerate(ramps) if ramp.losses],
        trials=[{"steepest": r.steepest, "lowest": r.lowest, "blown": r.blown, "falls": r.falls} for r in readings],
        settings={},
    )


def _notes(seen: str, steepest: Sequence[float], readings: Sequence[RampReading]) -> list[str]:
    blown = middle([reading.blown for reading in readings if reading.blown])
    return [
        f"The loss of {seen} falls fastest between rates {steepest[0]:.3g} and {steepest[-1]:.3g}"
        + (f", and blows up at {blown:.3g}" if blown else ""),
        "A range test looks at training losses of a few updates: it aims at no target, and finds no warm-up, schedule "
        "or critical batch size. --method auto does",
    ]


def _curve(ramp: RateRamp, place: int, question: RateQuestion) -> dict[str, Any]:
    name, losses = f"ramp {place}", smooth(ramp.losses)
    return {"name": name, "seed": question.seed + place, "rates": list(ramp.rates), "losses": losses}


def slope_ratios(ramps: Sequence[RateRamp], rate: float) -> dict[str, float]:
    """How many times the slope of the ramps at half and at twice the rate goes into that at the rate."""
    found = {}
    for name, factor in (("half", 0.5), ("twice", 2.0)):
        pairs = [(_fall(ramp, rate), _fall(ramp, rate * factor)) for ramp in ramps]
        known = [own / other for own, other in pairs if own and other]
        if known:
            found[name] = statistics.median(known)
    return found


def _fall(ramp: RateRamp, rate: float) -> float | None:
    """How fast the loss falls at that rate; None where it does not."""
    slope = slope_at([math.log(each) for each in ramp.rates], smooth(ramp.losses), math.log(rate))
    return -slope if slope is not None and slope < 0 else None


def _why_unknown(steepest: Sequence[float]) -> str:
    seen = ", ".join(f"{rate:.3g}" for rate in steepest)
    return (
        f"The range test does not tell: the loss falls fastest at rates {seen}, which differ by more than a factor "
        f"of {FARTHEST:.0f} from seed to seed. --method auto trains at several of them"
    )


def _why_nothing(ramps: Sequence[RateRamp], readings: list[RampReading], question: RateQuestion) -> str:
    tried = f"between {min(r.rates[0] for r in ramps):.3g} and {max(r.rates[-1] for r in ramps):.3g}"
    if all(reading.blown for reading in readings):
        lowest = min(reading.blown for reading in readings if reading.blown)
        return (
            f"The loss blew up at a rate of {lowest:.3g} without falling before, at rates {tried}. Warm up first: "
            "--method auto does"
        )
    told = f"The loss did not leave chance at any rate {tried}"
    least, whole = min(len(ramp.rates) for ramp in ramps), question.ramp(0).num_steps
    if least < whole and not any(reading.blown for reading in readings):
        return f"{told}, in as few as {least} updates: the budget did not last for {whole}. Raise --budget"
    return f"{told}. Are labels shuffled, or weights frozen?"
