"""Which rate, how many updates and which critical batch the evidence stands for."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from legroom.errors import NothingMeasured
from legroom.logbook import Records
from legroom.questions.rate import carried, greedy, range_test
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.chance import refuse_chance
from legroom.questions.rate.critical import better_power, critical_batch, guess_by_noise
from legroom.questions.rate.curves import fit_curves, steps_by_decay
from legroom.questions.rate.evidence import Evidence, Trunk, gather, steps_by_seed
from legroom.questions.rate.growing import COOLDOWN, warmup_steps
from legroom.questions.rate.ranking import winner
from legroom.questions.rate.records import Grown, GrowTrunk, RateQuestion, RunTrial, Trial, update_size
from legroom.questions.rate.search import lengths
from legroom.questions.rate.target import SHARE_ALL, least_value
from legroom.questions.rate.telling import cooled, curve_of, finite, recommend, tell
from legroom.questions.rate.whole_data import with_whole_data
from legroom.questions.rate.width import plausible_rates, sensitivity
from legroom.requests import JobDescription

ENOUGH_POINTS = 6
"""Of a curve, to say of it that it levels off."""
WIDEST_TOLD = 16.0
"""Ends of a range further apart than this factor are no knowledge: no number is told between them."""
OTHERS = {"range": range_test.advise, "greedy": greedy.advise}


def advise(records: Records, question: RateQuestion) -> RateAnswer:
    """The answer that the entries hold."""
    return with_whole_data(_advise(records, question), records, question)


def _advise(records: Records, question: RateQuestion) -> RateAnswer:
    if question.method in OTHERS:
        return OTHERS[question.method](records, question)
    if question.method == "transfer":
        known = question.at_known()
        return carried.advise(records, question, _by_trunks(records, known), gather(records.entries, known))
    return _by_trunks(records, question)


def _by_trunks(records: Records, question: RateQuestion) -> RateAnswer:
    """What trunks and branches at one batch size say."""
    evidence = gather(records.entries, question)
    first = evidence.of_seed(question.seed)
    best = winner(first, question, evidence.trunks)
    if best is None or best.last is None:
        raise NothingMeasured(_all_diverged(evidence, question))
    _refuse_nothing(evidence, question, records.description())
    steps = steps_by_seed(evidence.trunks, best, question.wanted)
    middle = statistics.median(steps)
    num_steps = round(middle) if math.isfinite(middle) else best.last.num_steps
    cooldown = cooled(num_steps)
    warmup = min(warmup_steps(question), num_steps - cooldown["cooldown_steps"])
    own, because = own_runs(records, question), _because(middle, question, evidence)
    answer = tell(
        records,
        question,
        recommend(best.learning_rate, plausible_rates(first, best, steps), because, "grown"),
        notes=_notes(question, best, steps, evidence),
        warmup_steps=warmup,
        **cooldown,
        num_steps=num_steps,
        steps_range=(finite(min(steps)), finite(max(steps))),
        reached=math.isfinite(middle),
        seeds_there=seeds_there(evidence, best.learning_rate, question),
        best_value=question.signed(min(trunk.best for trunk in first)),
        sensitivity=sensitivity(first, best),
        num_trials=len(evidence.trunks) + len(own),
        num_samples=evidence.num_samples + sum(map(_samples_of, own)),
        baseline_seconds=question.baseline_seconds,
        step_seconds=evidence.update_seconds,
        extrapolated_steps=None if math.isfinite(middle) else extrapolate(best, question),
        curves=[curve_of(trunk, question) for trunk in evidence.trunks],
        settings={"schedule": cooldown["schedule"], "warmup_steps": warmup},
    )
    return _with_critical(answer, evidence, best)


def own_runs(records: Records, question: RateQuestion) -> list[Trial | Grown]:
    """Runs by the job's own settings that the target was taken from, short ones that were cooled down among them."""
    if question.target_from == "given":
        return []
    own = {**records.description().baseline, "seed": None}
    runs: list[Trial | Grown] = [
        entry.result
        for entry in records.entries
        if isinstance(entry.request, RunTrial) and {**entry.request.settings, "seed": None} == own
    ]
    elsewhere = question.target_from == "forecast" and question.update_size != update_size(own)
    return [*runs, *_own_cooled(records, question)] if elsewhere else runs


def _own_cooled(records: Records, question: RateQuestion) -> list[Grown]:
    """Trunks by the job's own settings, which are none of this question's: its batch size is another."""
    own = dict(records.description().baseline)
    there, rate = replace(question, settings=own), own["learning_rate"]
    return [
        entry.result
        for entry in records.entries
        if isinstance(entry.request, GrowTrunk)
        and there.covers(entry.request)
        and (entry.request.settings["learning_rate"], entry.request.settings["seed"]) == (rate, question.seed)
    ]


def _samples_of(run: Trial | Grown) -> int:
    return run.paid_samples if isinstance(run, Grown) else run.num_samples


def _with_critical(answer: RateAnswer, evidence: Evidence, best: Trunk) -> RateAnswer:
    """The answer with what branches at other batch sizes tell: the rule for the rate, and the critical batch size."""
    power, noise = better_power(evidence, best), guess_by_noise(evidence, best)
    if power is not None:
        answer = replace(answer, rule="linear" if power == 1 else "sqrt", rule_from="branches")
    if noise is not None:
        answer = replace(answer, noise_scale=noise.batch_size, noise_range=(noise.range[0], finite(noise.range[1])))
    found = critical_batch(evidence, best)
    unknown = _unknown_batch(found.range, is_beyond=found.is_beyond)
    if unknown:
        span = None if found.is_beyond else found.range
        edge = found.value if found.is_beyond else None
        return replace(answer, critical_range=span, critical_edge=edge, not_measured=[*answer.not_measured, *unknown])
    assert found.value is not None
    law = {
        "least_steps": answer.num_steps / (1 + found.value / best.batch_size),
        "least_steps_range": _least_steps(answer, found.range, best.batch_size),
        "critical_batch_size": found.value,
    }
    return replace(
        answer,
        critical_batch_size=found.value,
        critical_range=found.range,
        critical_from="branches",
        law=law,
    )


def _least_steps(
    answer: RateAnswer, span: tuple[float, float] | None, batch_size: int
) -> tuple[float, float | None] | None:
    """S_min between the ends of the critical batch size's range, and of the seeds' updates to the target."""
    low, high = answer.steps_range
    if span is None or low is None:
        return None
    return low / (1 + span[1] / batch_size), None if high is None else high / (1 + span[0] / batch_size)


def extrapolate(best: Trunk, question: RateQuestion) -> tuple[float, float | None] | None:
    """Updates to the target by curves through the best trunk's runs; None where none of them gets there."""
    steps, values = [point.num_steps for point in best.points], [point.value for point in best.points]
    least, last = least_value(values, question), best.points[-1].num_steps
    found = [curve.steps(question.wanted) for curve in fit_curves(steps, values, least=least)]
    found.append(steps_by_decay(steps, values, question.wanted, least=least))
    ahead = sorted(each for each in found if each > last)
    return (ahead[0], finite(ahead[-1])) if ahead and math.isfinite(ahead[0]) else None


def _refuse_nothing(evidence: Evidence, question: RateQuestion, description: JobDescription) -> None:
    """Refuse a score that is no number, and a loss that never moved: no rate can be told from them."""
    points = [point for trunk in evidence.trunks for point in trunk.points]
    if not any(math.isfinite(point.value) for point in points):
        raise NothingMeasured(
            f"The {question.target_name} was no number in all {len(points)} evaluations. "
            "Mend it, or judge by the loss, as in --target loss=0.1"
        )
    refuse_chance(evidence, question, description)


def _notes(question: RateQuestion, best: Trunk, steps: Sequence[float], evidence: Evidence) -> list[str]:
    notes, target = [], f"{question.target_name} {question.target:.4g}"
    num_missed = sum(not math.isfinite(each) for each in steps)
    is_known = question.method == "transfer"  # of which seeds are no part, and whose runs are at the known batch
    there = f" at batches of {question.update_size:,}" if is_known else ""
    if num_missed > len(steps) / 2:
        notes.append(
            f"{num_missed} of {len(steps)} seeds did not reach {target}{there}; the best that this rate gave is "
            f"{question.signed(best.best):.4g}. {_would_take(best, question, evidence)}"
        )
    elif num_missed:
        notes.append(f"{num_missed} of {len(steps)} seeds did not reach {target}")
    diverged = num_diverged(evidence, best, question)
    if diverged:
        notes.append(f"This rate diverged on {diverged} of {len(steps)} seeds; a lower one is safer")
    if question.target_from == "forecast" and question.target_range is not None:
        low, high = question.target_range
        notes.append(
            f"{target} is a forecast ({low:.4g} to {high:.4g}) of what the job's own settings reach, "
            "from the beginning of their run"
        )
    if question.target_from == "begun":
        notes.append(
            f"{target} is what the job's own settings had reached when a quarter of the budget was over; they go on "
            "longer. Name a --target, or raise --budget"
        )
    if len(steps) < question.num_seeds and not is_known:
        notes.append(f"The budget lasted for {len(steps)} of {question.num_seeds} seeds")
    if evidence.failed:
        request, why = evidence.failed[0]
        what = f"Branches of {request.update_size:,} samples an update"
        notes.append(f"{what} could not be trained and are left out: {why}")
    return notes


def num_diverged(evidence: Evidence, best: Trunk, question: RateQuestion) -> int:
    """Seeds on which the best rate diverged before it was at the target."""
    same = [trunk for trunk in evidence.trunks if trunk.learning_rate == best.learning_rate]
    return sum(trunk.diverged_at is not None and trunk.steps_to(question.wanted) is None for trunk in same)


def _would_take(best: Trunk, question: RateQuestion, evidence: Evidence) -> str:
    """What the target would take, by the shape of the best curve."""
    span = extrapolate(best, question)
    if span is None and len(best.points) < ENOUGH_POINTS:
        return "Its curve is too short to say what the target takes; raise --budget"
    if span is None:
        return "By the shape of its curve it would not get there however long; name a target that the job can reach"
    low, high = span
    seconds = f", {low * evidence.update_seconds:,.0f} s of training or more" if evidence.update_seconds else ""
    until = "no one knows how many more" if high is None else f"{high:,.0f}"
    between = f"about {low:,.0f}" if high == low else f"{low:,.0f} to {until}"
    return f"By the shape of its curve the target takes {between} updates{seconds}; raise --budget"


def _unknown_batch(span: tuple[float, float] | None, *, is_beyond: bool) -> list[str]:
    """A sentence where the branches do not tell the critical batch size."""
    if span is None:
        return ["the critical batch size: no branch at another batch could be compared"]
    low, high = span
    if is_beyond:
        return ["the critical batch size: branches at other batches lost nothing, or noise hides what they lost"]
    told = f"the critical batch size: its branches leave it between {low:,.3g} and {high:,.0f}"
    return [told] if high > WIDEST_TOLD * low else []


def _because(middle: float, question: RateQuestion, evidence: Evidence) -> str:
    target = f"{question.target_name} {question.target:.4g}"
    if math.isfinite(middle):
        return f"it reaches {target} in {middle:,.0f} updates, in the middle of the seeds"
    most, rate = max((seeds_there(evidence, rate, question)[0], rate) for rate in _rates(evidence))
    if not most:
        return f"no rate reached {target}; this one came nearest"
    tried = seeds_there(evidence, rate, question)[1]
    return f"no rate reached {target} with most seeds; {rate:.3g} did with {most} of {tried} that were tried"


def _rates(evidence: Evidence) -> set[float]:
    return {trunk.learning_rate for trunk in evidence.trunks}


def seeds_there(evidence: Evidence, rate: float, question: RateQuestion) -> tuple[int, int]:
    """Seeds that reached the target with a rate, and those that were tried with it."""
    same = [trunk for trunk in evidence.trunks if trunk.learning_rate == rate]
    return sum(trunk.steps_to(question.wanted) is not None for trunk in same), len(same)


def _no_trial(evidence: Evidence, question: RateQuestion) -> str:
    """What a first trial takes, which budget that needs, and what the job's own settings had come to meanwhile."""
    each = (1 + COOLDOWN) * lengths(question)[0] * evidence.step_seconds
    others = sum(ramp.seconds for ramp in evidence.ramps)
    known = question.target_from != "given"
    needs = math.ceil(max(question.budget_seconds + each, (each + others) / ((1 - SHARE_ALL) if known else 1)))
    told = f"The budget did not last for a single trial: one takes {each:,.0f} s. Raise --budget to {needs:,} s or more"
    if not known:
        return told
    came = {"measured": "come to", "forecast": "are forecast to come to", "begun": "had come to"}
    return f"{told}. The job's own settings {came[question.target_from]} {question.target_name} {question.target:.4g}"


def _all_diverged(evidence: Evidence, question: RateQuestion) -> str:
    rates = [trunk.learning_rate for trunk in evidence.trunks]
    if not rates:
        return _no_trial(evidence, question)
    span = f"from {min(rates):.3g} to {max(rates):.3g}"
    ramped = [ramp.rates[-2] for ramp in evidence.ramps if len(ramp.rates) > 1]
    stood = f"; a ramp of single updates stood rates up to {min(ramped):.3g}" if ramped else ""
    return (
        f"Every trial diverged, at rates {span}{stood}. No rate was found that did not: "
        "warm up longer, clip the gradient's norm, or look for values that are no numbers"
    )
