"""The ways to carry a rate from one batch size to another, as settings of a run at the new one."""

from dataclasses import dataclass, replace
from typing import Any

from legroom.errors import UsageError
from legroom.laws.rate_scaling import Recipe, scale
from legroom.laws.steps import best_rate, rate_exponent
from legroom.logbook import Records
from legroom.questions.rate.critical import better_power, critical_batch, guess_by_noise
from legroom.questions.rate.evidence import Evidence, gather
from legroom.questions.rate.growing import COOLDOWN, LEAST_STEPS, warmup_steps
from legroom.questions.rate.ranking import winner
from legroom.questions.rate.records import GrowTrunk, RateQuestion, Solver, update_size

KNOWN_RULES = ("measured", "linear", "sqrt", "legw", "adam")
LOOKS = (0.25, 0.5, 1.0)
"""Shares of the samples at which rules are compared."""
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
