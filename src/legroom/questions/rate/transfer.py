"""`--method transfer`: a rate known to be good at one batch size, carried to another without a run there.

The rules of `laws.rate_scaling` know only the two sizes. Ours looks at the known batch: trunks at half, once and twice
the known rate tell how much it matters, and branches off them the critical batch size, beyond which the rate levels off
(`laws.steps.best_rate`). `--compare-rules` then runs all of them at the new size over as many samples, and beside them
LARS, LAMB and a run twice as long.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from legroom.errors import UsageError
from legroom.laws.rate_scaling import Recipe, scale
from legroom.laws.steps import StepsLaw, best_rate, rate_exponent
from legroom.logbook import Records
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.critical import better_power, critical_batch, guess_by_noise
from legroom.questions.rate.evidence import Evidence, Trunk, add_trunk, gather
from legroom.questions.rate.growing import COOLDOWN, LEAST_STEPS, Growing, branch_batches, warmup_steps
from legroom.questions.rate.ramps import diverging_rate
from legroom.questions.rate.ranking import reached, winner
from legroom.questions.rate.records import Grown, GrowTrunk, RampRate, RateQuestion, Solver, update_size
from legroom.questions.rate.search import BRANCHED_AT, lengths
from legroom.questions.rate.telling import cooled, curve_of, finite, recommend
from legroom.session import Session

KNOWN_RULES = ("measured", "linear", "sqrt", "legw", "adam")
BESIDE = (0.5, 1.0, 2.0)
"""Times the known rate: what half and twice of it cost is part of the answer."""
BASE_SHARE, BRANCH_SHARE = 0.35, 0.55
"""Of the budget, for trunks and branches at the known batch where rules are run side by side too."""
LOOKS = (0.25, 0.5, 1.0)
"""Shares of the samples at which rules are compared."""
SOLVER_SHARES = (1 / 3, 1 / 10)
"""Of the rate at which LARS or LAMB blows up: those that are tried of each."""
LONGER = 2.0
LOOK_COST = 0.7
"""Updates that a candidate takes to a look, of all up to there: half were made before, and a fifth cool down."""
ADAM_BETAS, ADAM_EPS = (0.9, 0.999), 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to train at the new batch size."""

    name: str
    learning_rate: float
    warmup_steps: int
    warmup_start: float = 0.0
    solver: Solver = "own"
    betas: tuple[float, float] | None = None
    eps: float | None = None


def find(session: Session, question: RateQuestion, started: float) -> None:
    """Look at the known batch; where asked, run the rules at the new one."""
    known = question.at_known()
    share = BASE_SHARE if question.compares else 1.0
    _look_at_known(session, known, started, share, avoids=question.update_size)
    if question.compares:
        _compare(session, question, started)


def _look_at_known(session: Session, known: RateQuestion, started: float, share: float, *, avoids: int) -> None:
    """Trunks at and beside the known rate until the target or the share's end, then branches off the middle one."""
    growing = Growing(session, known, seed=known.seed, started=started)
    growing.look_at_start()
    rate = float(known.settings["learning_rate"])
    for place, length in enumerate(lengths(known)):
        rates = [times * rate for times in BESIDE]
        if place and not growing.affords(growing.ahead(rates, length), share):
            break
        for each in rates:
            growing.grow(each, length)
        if reached(growing.trunks, known) is not None:
            break
    own = next((trunk for trunk in growing.trunks if trunk.learning_rate == rate), None)
    if own is not None and own.last is not None:
        other = Growing(session, known, seed=known.seed + 1, started=started, avoids=avoids)
        for part in BRANCHED_AT:
            to_step = max(LEAST_STEPS, round(part * own.last.to_step))
            branch_batches(other, own, to_step, BRANCH_SHARE if known.compares else 1.0)


def _compare(session: Session, question: RateQuestion, started: float) -> None:
    """All candidates side by side, from look to look; then the best of the job's own optimizer twice as long."""
    growing = Growing(session, question, seed=question.seed, started=started)
    rivals, steps = candidates(session.records, question), compared_steps(session.records, question)
    for solver in ("lars", "lamb"):
        rivals += _of_solver(session, question, solver)
    for to_step in steps:
        if not growing.affords(len(rivals) * to_step * LOOK_COST, 1.0):
            return
        _run(growing, question, rivals, to_step)
        rivals.reverse()  # those that were grown last are still held
    _, fair = compared(outcomes(session.records, question))
    mine = [pair for pair in fair if pair[0].solver == "own"]
    longest = round(LONGER * steps[-1])
    if mine and growing.affords(longest * LOOK_COST, 1.0):
        best, _ = min(mine, key=lambda pair: pair[1].points[-1].value)
        _run(growing, question, [replace(best, name=f"{best.name}, twice as long")], longest)


def _of_solver(session: Session, question: RateQuestion, solver: Solver) -> list[Candidate]:
    """Another optimizer at two rates below the one at which it blows up."""
    request = replace(question.ramp(0), solver=solver)
    session.progress(f"ramp of {solver.upper()}", 0.6)
    blown = diverging_rate([session.ask(request)]) or request.most_rate
    warmup = warmup_steps(question)
    return [
        Candidate(name=solver.upper(), learning_rate=blown * share, warmup_steps=warmup, solver=solver)
        for share in SOLVER_SHARES
    ]


def _run(growing: Growing, question: RateQuestion, rivals: Sequence[Candidate], to_step: int) -> None:
    for candidate in rivals:
        growing.tell(f"{candidate.name}, {to_step:,} updates of {question.update_size:,}")
        growing.session.ask(request_of(question, candidate, to_step))


def request_of(question: RateQuestion, candidate: Candidate, to_step: int) -> GrowTrunk:
    """The request for a candidate, grown to an update and cooled down."""
    request = question.trunk(
        candidate.learning_rate,
        to_step,
        seed=question.seed,
        warmup_steps=candidate.warmup_steps,
        cooldown=COOLDOWN,
    )
    settings = {**request.settings, "warmup_start": candidate.warmup_start}
    return replace(request, settings=settings, solver=candidate.solver, betas=candidate.betas, eps=candidate.eps)


def compared_steps(records: Records, question: RateQuestion) -> list[int]:
    """Updates at which candidates are compared: up to the samples that the known batch took to where it was."""
    known = question.at_known()
    best = winner(gather(records.entries, known).of_seed(known.seed), known)
    samples = best.last.num_samples if best is not None and best.last is not None else question.update_size * 100
    most = max(LEAST_STEPS, round(samples / question.update_size / (1 + COOLDOWN)))
    return sorted({max(4, round(share * most)) for share in LOOKS})


def candidates(records: Records, question: RateQuestion) -> list[Candidate]:
    """The rules that can carry this rate to this size."""
    found = []
    for rule in KNOWN_RULES:
        try:
            found.append(by_rule(records, question, rule))
        except UsageError:  # Adam's rule holds for its own optimizer, and below ten times the batch
            continue
    return found


def by_rule(records: Records, question: RateQuestion, rule: str) -> Candidate:
    """What one rule says: rate and warm-up at the new size."""
    known = question.at_known()
    old, rate = update_size(question.known), float(question.known["learning_rate"])
    if rule == "measured":
        carried = measured_rate(elsewhere(gather(records.entries, known), question), known, question.update_size)
        return Candidate(name=rule, learning_rate=carried, warmup_steps=warmup_steps(question))
    if rule == "adam" and question.optimizer != "adam":
        raise UsageError("Adam's rule is for Adam, and this job has another optimizer. Name --rule sqrt or linear")
    per_epoch = max(1.0, known.own_steps / max(1, int(question.settings["num_epochs"])))
    adams: dict[str, Any] = {"betas": ADAM_BETAS, "eps": ADAM_EPS} if rule == "adam" else {}
    warmup = warmup_steps(known) / per_epoch
    recipe = scale(
        rule, Recipe(batch_size=old, learning_rate=rate, warmup_epochs=warmup, **adams), question.update_size
    )
    return Candidate(
        name=rule,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps(per_epoch * old / question.update_size),
        warmup_start=recipe.warmup_start,
        betas=recipe.betas,
        eps=recipe.eps,
    )


def elsewhere(evidence: Evidence, question: RateQuestion) -> Evidence:
    """The evidence without branches at the new batch size, which other questions may have left: they are runs there."""
    size, known = question.update_size, update_size(question.known)
    return replace(evidence, branches=[each for each in evidence.branches if each.size != size or size == known])


def measured_rate(evidence: Evidence, known: RateQuestion, size: int) -> float:
    """The known rate at another size by the critical batch size that branches, or else noise, tell of."""
    rate = float(known.settings["learning_rate"])
    critical, exponent = critical_of(evidence, known)
    if critical is None:
        return float(rate * (size / known.update_size) ** min(exponent, 0.5))
    return best_rate(rate, known.update_size, size, critical, exponent)


def critical_of(evidence: Evidence, known: RateQuestion) -> tuple[float | None, float]:
    """The critical batch size, and the power of the batch with which the rate grows below it."""
    rate, usual = float(known.settings["learning_rate"]), rate_exponent(known.optimizer)
    own = next((trunk for trunk in evidence.of_seed(known.seed) if trunk.learning_rate == rate), None)
    if own is None:
        return None, usual
    found, noise = critical_batch(evidence, own), guess_by_noise(evidence, own)
    value = found.value if found.value is not None else None if noise is None else noise.batch_size
    return value, better_power(evidence, own) or usual


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
    best = min(equal, key=lambda pair: pair[1].points[-1].value, default=None)
    chosen = by_rule(records, question, question.rule) if best is None else best[0]
    critical, exponent = critical_of(elsewhere(evidence, question), question.at_known())
    there = best[1].steps_to(question.wanted) if best is not None else None
    size = question.update_size
    num_steps = round(there) if there is not None else _carried_steps(base, critical, size)
    width, rate = math.sqrt(base.range[1] / base.range[0]), chosen.learning_rate
    span = (rate / width, rate * width)
    cooldown = cooled(num_steps)
    unknown = [] if there is not None else ["updates at the new batch size: they follow from the law"]
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
        num_epochs=num_steps * size / max(1, records.description().num_samples or 1),
        steps_range=(None, None),
        reached=there is not None,
        rule=chosen.name if chosen.name != "measured" else "linear" if exponent == 1 else "sqrt",
        rule_from="comparison" if best is not None else "branches" if chosen.name == "measured" else "given",
        notes=[*base.notes, *_notes(found, question, best), *cut_short(once, equal)],
        not_measured=[*base.not_measured, *unknown],
        baseline_steps=question.own_steps,
        step_seconds=None,
        extrapolated_steps=None,
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
    return f"carried from {known:.3g} at {size:,} by the rule {chosen.name}"


def _samples_of(records: Records, question: RateQuestion) -> int:
    """Samples that runs and ramps at the new size took."""
    return sum(
        entry.result.paid_samples if isinstance(entry.request, GrowTrunk) else entry.result.num_samples
        for entry in records.entries
        if isinstance(entry.request, GrowTrunk | RampRate)
        and update_size(entry.request.settings) == question.update_size
        and update_size(question.known) != question.update_size
    )


def _carried_steps(base: RateAnswer, critical: float | None, size: int) -> int:
    """Updates at the new size by the law; as many samples where the critical batch size is unknown."""
    if critical is None:
        return max(1, round(base.num_steps * base.batch_size / size))
    law = StepsLaw(least_steps=base.num_steps / (1 + critical / base.batch_size), critical_batch_size=critical)
    return max(1, round(law.steps(size)))


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
    """Who was not compared, since the budget ended before."""
    names = [each.name for each, trunk in once if trunk.diverged_at is None and (each, trunk) not in equal]
    if once and not equal:
        return ["No way to train was compared: all diverged, or the budget was over before. Raise --budget"]
    return [f"Cut short by the budget, and not compared: {', '.join(names)}"] if names else []
