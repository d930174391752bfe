"""What is said of memory where the budget left no time for a proof: what ran while it was timed, and no more."""

from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer, answer_of
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.plan.records import PlanQuestion
from legroom.session import Session

MISSING = (
    "Whether memory holds the batch was not proved: the budget was used up. legroom memory proves it; or raise --budget"
)


def seen_memory(session: Session, asked: MemoryQuestion, question: PlanQuestion) -> MemoryAnswer:
    """The largest batch that was timed or trained with, no less than the job's own; nobody knows what it took."""
    own = int(question.baseline["batch_size"])
    timed = [int(point["batch_size"]) for point in question.speed.points] if question.speed else []
    largest = max([own, *timed, *(one.batch_size for one in question.rates)])
    seen = Recommendation(
        name="max_batch_size",
        value=largest,
        range=None,
        because="it ran while steps were timed; the budget left no time for a proof",
        evidence=["step_times"],
    )
    return answer_of(
        session.records,
        asked,
        largest,
        notes=[],
        recommendations=[seen],
        typical_batch_size=None,
        eval_batch_size=None,
        range=(largest, largest),
        bytes_per_sample=0.0,
        fixed_bytes=0.0,
        peak_bytes=0,
        peak_phase="",
        verified=False,
        estimate=False,
    )
