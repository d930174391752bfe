"""The rate at a new batch size, by the rule that carried it there or by runs of all of them side by side."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from legroom.laws.steps import StepsLaw
from legroom.logbook import Records
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.evidence import Evidence, Trunk, add_trunk
from legroom.questions.rate.records import Grown, GrowTrunk, RampRate, RateQuestion, update_size
from legroom.questions.rate.rules import (
    Candidate,
    by_rule,
    candidates,
    compared_steps,
    critical_of,
    elsewhere,
    request_of,
)
from legroom.questions.rate.telling import cooled, curve_of, epochs_of, finite, recommend


def outcomes(records: Records, question: RateQuestion) -> list[tuple[Candidate, Trunk]]:
    """Each candidate that was run, and its curve."""
    found = []
    for name, requests in _groups(records, question).items():
        trunks: dict[tuple[float, int], Trunk] = {}
        for request, result in requests:
            add_trunk(trunks, request, result, question)
        (trunk,) = trunks.values()
        first = requests[0][0]
        candidate = Candidate(
            name=name[0],
            learning_rate=trunk.learning_rate,
            warmup_steps=int(first.settings["warmup_steps"]),
            warmup_start=float(first.settings["warmup_start"]),
            solver=first.solver,
            betas=first.betas,
            eps=first.eps,
        )
        found.append((candidate, trunk))
    return found


def _groups(records: Records, question: RateQuestion) -> dict[tuple[Any, ...], list[tuple[GrowTrunk, Grown]]]:
    """Trials at the new size by candidate; the long one apart."""
    steps, rules = compared_steps(records, question), {c: c.name for c in candidates(records, question)}
    groups: dict[tuple[Any, ...], list[tuple[GrowTrunk, Grown]]] = {}
    for entry in records.entries:
        request = entry.request
        if not isinstance(request, GrowTrunk) or not is_asked(request, question):
            continue
        rate, to_step = float(request.settings["learning_rate"]), request.to_step
        names = [name for each, name in rules.items() if request_of(question, each, to_step) == request]
        if not names and request.solver == "own":
            continue
        name = " = ".join(names) or request.solver.upper()
        long = to_step > steps[-1]
        key = (f"{name}, twice as long" if long else name, rate, request.solver)
        groups.setdefault(key, []).append((request, entry.result))
    return groups


def is_asked(request: GrowTrunk, question: RateQuestion) -> bool:
    """Whether it is of this question, by whatever optimizer: at its batch, on its device, data and seed."""
    by_own = replace(request, solver="own", betas=None, eps=None)
    return question.covers(by_own) and int(request.settings["seed"]) == question.seed


def compared(
    found: Sequence[tuple[Candidate, Trunk]],
) -> tuple[list[tuple[Candidate, Trunk]], list[tuple[Candidate, Trunk]]]:
    """All but the long run; and of these, for comparing, those that did not diverge and saw the most samples."""
    once = [pair for pair in found if "twice" not in pair[0].name]
    alive = [pair for pair in once if pair[1].points and pair[1].diverged_at is None]
    most = max((pair[1].points[-1].num_samples for pair in alive), default=0)
    return once, [pair for pair in alive if pair[1].points[-1].num_samples == most]


def advise(records: Records, question: RateQuestion, base: RateAnswer, evidence: Evidence) -> RateAnswer:
    """The rate at the new size: by the rule asked for, or by the winner where rules were run."""
    found = outcomes(records, question) if question.compares else []
    once, equal = compared(found)
    told = cut_short(once, equal) if question.compares else []
    best = min(equal, key=lambda pair: pair[1].points[-1].value, default=None)
    chosen = by_rule(records, question, question.rule) if best is None else best[0]
    critical, exponent = critical_of(elsewhere(evidence, question), question.at_known())
    there = best[1].steps_to(question.wanted) if best is not None else None
    size = question.update_size
    ahead = None if there is not None else _carried_steps(base, critical, size)
    least = ahead[0] if ahead else _at_size(base.num_steps, base, critical, size)
    num_steps = round(least if there is None else there)
    width, rate = math.sqrt(base.range[1] / base.range[0]), chosen.learning_rate
    span = (rate / width, rate * width)
    cooldown = cooled(num_steps)
    unknown = [] if there is not None else [_not_seen(ahead)]
    settings = {"learning_rate": rate, "schedule": cooldown["schedule"], "warmup_steps": chosen.warmup_steps}
    return replace(
        base,
        recommendations=[recommend(rate, span, _because(chosen, question, len(equal)), "grown")],
        batch_size=size,
        learning_rate=rate,
        range=span,
        warmup_steps=chosen.warmup_steps,
        **cooldown,
        num_steps=num_steps,
        num_epochs=epochs_of(num_steps, records, question),
        steps_range=(None, None),
        reached=there is not None,
        rule=chosen.name if chosen.name != "measured" else "linear" if exponent == 1 else "sqrt",
        rule_from="comparison" if best is not None else "branches" if chosen.name == "measured" else "given",
        notes=[*base.notes, *_notes(found, question, best), *told],
        not_measured=[*base.not_measured, *unknown],
        baseline_steps=question.own_steps,
        step_seconds=None,
        extrapolated_steps=ahead,
        num_trials=base.num_trials + len(found),
        num_samples=base.num_samples + _samples_of(records, question),
        curves=[*base.curves, *(curve_of(trunk, question, each.name) for each, trunk in found)],
        trials=[_trial(each, trunk, question) for each, trunk in found],
        settings={**question.settings, **settings, "warmup_start": chosen.warmup_start},
    )


def _because(chosen: Candidate, question: RateQuestion, num_compared: int) -> str:
    if num_compared:
        return f"{chosen.name} came furthest of {num_compared} ways over as many samples"
    known, size = float(question.known["learning_rate"]), update_size(question.known)
    return f"it is carried from {known:.3g} at {size:,} by the rule {chosen.name}"


def _samples_of(records: Records, question: RateQuestion) -> int:
    """Samples that runs and ramps at the new size took."""
    return sum(
        entry.result.paid_samples if isinstance(entry.request, GrowTrunk) else entry.result.num_samples
        for entry in records.entries
        if isinstance(entry.request, GrowTrunk | RampRate)
        and update_size(entry.request.settings) == question.update_size
        and update_size(question.known) != question.update_size
    )


def _carried_steps(base: RateAnswer, critical: float | None, size: int) -> tuple[float, float | None] | None:
    """Updates to the target at the new size, from those at the known one; None where these are unknown as well."""
    span = (float(base.num_steps), float(base.num_steps)) if base.reached else base.extrapolated_steps
    if span is None:
        return None
    low, high = span
    return _at_size(low, base, critical, size), None if high is None else _at_size(high, base, critical, size)


def _at_size(num_steps: float, base: RateAnswer, critical: float | None, size: int) -> float:
    """Updates at the new size by the law; as many samples where the critical batch size is unknown."""
    if critical is None:
        return max(1.0, num_steps * base.batch_size / size)
    law = StepsLaw(least_steps=num_steps / (1 + critical / base.batch_size), critical_batch_size=critical)
    return max(1.0, law.steps(size))


def _not_seen(ahead: tuple[float, float | None] | None) -> str:
    """Why updates at the new size are no measurement."""
    why = "they follow from the law" if ahead else "the known batch did not reach the target either"
    return f"updates at the new batch size: {why}"


def _trial(candidate: Candidate, trunk: Trunk, question: RateQuestion) -> dict[str, Any]:
    last = trunk.last
    return {
        "rule": candidate.name,
        "learning_rate": candidate.learning_rate,
        "warmup_steps": candidate.warmup_steps,
        "optimizer": candidate.solver,
        "num_samples": 0 if last is None else last.num_samples,
        "value": None if last is None else finite(question.signed(last.value)),
        "diverged": trunk.diverged_at is not None,
    }


def _notes(
    found: Sequence[tuple[Candidate, Trunk]], question: RateQuestion, best: tuple[Candidate, Trunk] | None
) -> list[str]:
    """Who won by how much, and what training longer gives."""
    if best is None or best[1].last is None:
        return []
    name = question.target_name
    won = question.signed(best[1].last.value)
    others = [
        f"{each.name} at {each.learning_rate:.3g}: "
        + ("diverged" if trunk.last is None else f"{question.signed(trunk.last.value):.4g}")
        for each, trunk in found
        if each != best[0]
    ]
    return [f"Over {best[1].last.num_samples:,} samples {best[0].name} came to {name} {won:.4g}; " + "; ".join(others)]


def cut_short(once: Sequence[tuple[Candidate, Trunk]], equal: Sequence[tuple[Candidate, Trunk]]) -> list[str]:
    """Who was not compared, since the budget ended before; and that nobody was."""
    names = [each.name for each, trunk in once if trunk.diverged_at is None and (each, trunk) not in equal]
    if once and not equal:
        return ["No way to train was compared: all diverged. A smaller batch or a lower --from-rate may not"]
    if not equal:
        return ["No way to train was compared: the budget was over before. Raise --budget"]
    return [f"Cut short by the budget, and not compared: {', '.join(names)}"] if names else []
