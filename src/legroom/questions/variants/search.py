"""Measures what the choice lacks, one request after the other, as far as the budget goes."""

from dataclasses import replace

from legroom.errors import JobCrashed, JobHung
from legroom.questions.variants.choice import Choice, choose
from legroom.questions.variants.evidence import Evidence, read_evidence
from legroom.questions.variants.records import NUM_SEEDS, TimeVariant, VariantsQuestion, VariantTimed
from legroom.session import Session

TURNS_SECONDS, TURNS_SHARE = 3.0, 0.06
"""For the turns of one comparison, and of the budget where that is less."""
MOST_STEPS, FEWEST_STEPS = 48, 16
"""Updates whose losses are compared: fewer where steps are long, and none where even these do not fit the budget."""
LOSSES_SHARE = 0.8
COMPILE_SHARE, COMPILE_SECONDS = 0.5, 180.0
"""Of the budget, and at most, that the first update of a variant may take: compiling does."""
SHORT_RUN = 20.0
"""Seconds of all updates of a run, below which compiling is not tried: it takes as long as it could give back."""


def measure_variants(session: Session, question: VariantsQuestion) -> VariantsQuestion:
    """All that the choice needs; the question comes back with what was skipped, and is noted so."""
    started, num_asked = session.clock(), 0
    while True:
        session.note(question)
        evidence = read_evidence(session.records.entries, question)
        choice = choose(evidence)
        if choice.lacks is None:
            return question
        left = question.budget_seconds - (session.clock() - started)
        why = _too_dear(evidence, choice, left)
        if why:
            question = replace(question, skipped={**question.skipped, " + ".join(choice.about): why})
            continue
        num_asked += 1
        session.progress(_words(choice), min(0.95, 0.05 + 0.9 * num_asked / (num_asked + 4)))
        _measure(session, question, evidence, choice, left)


def _too_dear(evidence: Evidence, choice: Choice, left: float) -> str:
    """Why it is not measured, as a clause; empty where it is."""
    step, num_steps = evidence.step_seconds, evidence.question.num_steps
    if left <= 0:
        return "the budget was spent before its turn"
    if choice.lacks == "losses" and step is not None and _loss_steps(step, left) < FEWEST_STEPS:
        return f"{2 * NUM_SEEDS} trainings of {FEWEST_STEPS} updates do not fit what is left of the budget"
    alone = choice.about == ("compile",) and len(evidence.question.names) > 1
    if alone and step is not None and num_steps is not None and num_steps * step < SHORT_RUN:
        return f"all updates of the run take {num_steps * step:.1f} s, less than compiling may give back"
    return ""


def _measure(session: Session, question: VariantsQuestion, evidence: Evidence, choice: Choice, left: float) -> None:
    if choice.lacks == "time":
        # By the whole budget, not by what is left of it: a search that goes on must ask for the same again.
        limit = min(COMPILE_SECONDS, COMPILE_SHARE * question.budget_seconds)
        seconds = min(TURNS_SECONDS, TURNS_SHARE * question.budget_seconds)
        _time(session, question.time(choice.about, seconds, limit, len(evidence.timed.get(choice.about, ()))))
        return
    known = read_evidence([*session.logbook.known, *session.records.entries], question)
    num_steps = _known_steps(known) or _loss_steps(evidence.step_seconds or 0.0, left)
    for names in ((), choice.about):
        for more in range(NUM_SEEDS):
            session.ask(question.train(names, more, num_steps))


def _time(session: Session, request: TimeVariant) -> None:
    """A variant that ends the child, or hangs, has that for its outcome."""
    started = session.clock()
    try:
        session.ask(request)
    except (JobCrashed, JobHung) as error:
        found = VariantTimed(outcome="failed", why=f"its process ended: {error}")
        session.logbook.record(request, found, session.clock() - started)


def _loss_steps(step_seconds: float, left: float) -> int:
    """Updates of each training, such that all of them take that share of what is left."""
    each = LOSSES_SHARE * left / (2 * NUM_SEEDS)
    return min(MOST_STEPS, int(each / step_seconds)) if step_seconds else MOST_STEPS


def _known_steps(evidence: Evidence) -> int | None:
    """As many as were made by the job's own settings: they are not made again."""
    return next((len(losses) for losses in evidence.losses.get((), {}).values()), None)


def _words(choice: Choice) -> str:
    what = " + ".join(choice.about)
    return f"timing {what}" if choice.lacks == "time" else f"losses with {what}"
