"""How far an answer that was searched on a part of the data moves on all of it."""

from dataclasses import replace

from legroom.logbook import Records
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.evidence import Trunk, gather
from legroom.questions.rate.records import RateQuestion
from legroom.questions.rate.telling import finite


def with_whole_data(answer: RateAnswer, records: Records, question: RateQuestion) -> RateAnswer:
    """The answer with what its rate did on all of the data, where a part was searched; in words too."""
    if question.fraction == 1:
        return answer
    evidence = gather(records.entries, question.on_all_data())
    trunk = next((each for each in evidence.trunks if each.learning_rate == answer.learning_rate), None)
    if trunk is None:
        why = "the budget did not last" if question.method == "auto" else "--method auto runs its answer there"
        unknown = f"updates on all of the data: {why}. The search saw {question.fraction:g} of it"
        return replace(answer, not_measured=[*answer.not_measured, unknown])
    steps = trunk.steps_to(question.wanted)
    times = steps / answer.num_steps if steps is not None and answer.reached else None
    best = finite(question.signed(trunk.best))
    return replace(
        answer,
        notes=[*answer.notes, f"On all of the data this rate {_came_to(trunk, question, steps, times)} (one seed)"],
        num_samples=answer.num_samples + evidence.num_samples,
        on_all_data={"reached": steps is not None, "num_steps": steps, "times": times, "best_value": best},
    )


def _came_to(trunk: Trunk, question: RateQuestion, steps: float | None, times: float | None) -> str:
    target = f"{question.target_name} {question.target:.4g}"
    if steps is not None:
        moved = "" if times is None else f", {times:.2f} times those on {question.fraction:g} of it"
        return f"reaches {target} in {steps:,.0f} updates{moved}"
    if trunk.last is None:
        return f"diverged within {trunk.diverged_at:,} updates: search a larger --fraction"
    best = question.signed(trunk.best)
    return f"came to {best:.4g} in {trunk.last.num_steps:,} updates, and not to {target}: raise --budget"
