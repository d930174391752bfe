"""Whether a plan still holds, from one proof and a few timings."""

from legroom.errors import NothingMeasured
from legroom.laws.intervals import rerun_mean
from legroom.logbook import Records
from legroom.questions.check.answer import CheckAnswer
from legroom.questions.check.records import CheckQuestion
from legroom.questions.memory.records import PhasePeaks
from legroom.questions.speed.records import StepTime, StepTimes
from legroom.reports.numbers import quantity
from legroom.units import format_bytes

DISTURBED = "they are slower, and other programs use this machine. Check again when these are done"


def advise(records: Records, question: CheckQuestion) -> CheckAnswer:
    """The answer that the proof and the timings give."""
    proofs = [entry.result for entry in records.entries if entry.request == question.proof()]
    if not proofs:
        raise NothingMeasured("The batch has not been proved yet. Let it go on with legroom check --resume")
    peaks, budget = proofs[-1], question.memory.budget_bytes
    step, span = _step_seconds(records, question)
    fits, expected = peaks.fits(budget), question.expected_range
    slower = step is not None and expected is not None and step > expected[1]
    disturbed = slower and bool(question.busy)
    failed = [*_misfit(peaks, budget, question.batch_size), *([] if disturbed else _slow(step, question))]
    return CheckAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*question.busy, *records.notes, *records.description().notes, *failed],
        not_measured=[
            *question.unknown,
            *([] if step else ["the time of a step: none could be timed"]),
            *([f"whether steps are as fast as they were: {DISTURBED}"] if disturbed else []),
        ],
        device=question.memory.device,
        plan_path=question.plan_path,
        batch_size=question.batch_size,
        holds=fits and (disturbed or not slower),
        disturbed=disturbed,
        fits=fits,
        peak_bytes=peaks.training_bytes(),
        budget_bytes=budget,
        step_seconds=step,
        step_range=span,
        expected_seconds=question.expected_seconds,
        expected_range=expected,
        differences=list(question.differences),
    )


def _step_seconds(records: Records, question: CheckQuestion) -> tuple[float | None, tuple[float, float] | None]:
    """Of the processes that timed it, on a CPU; of one process in rounds, on a GPU."""
    wanted = question.timings()
    found = [entry.result for entry in records.entries if entry.request in wanted]
    points: list[StepTime] = [point for result in found if isinstance(result, StepTimes) for point in result.points]
    timed = [point for point in points if point.outcome == "measured"]
    if not timed:
        return None, None
    return (timed[-1].median_seconds, timed[-1].interval) if len(timed) == 1 else rerun_mean(_seconds(timed))


def _seconds(points: list[StepTime]) -> list[float]:
    return [point.median_seconds for point in points]


def _misfit(peaks: PhasePeaks, budget_bytes: int, batch_size: int) -> list[str]:
    if peaks.fits(budget_bytes):
        return []
    took = format_bytes(peaks.training_bytes() + peaks.spare_bytes)
    why = {
        "measured": f"it takes {took} and there are {format_bytes(budget_bytes)}",
        "out_of_memory": "it ran out of memory",
        "retried": "it ran only because the allocator gave memory back and asked again",
        "no_batch": "the job's own loader has no batch of that size",
    }[peaks.outcome]
    return [f"The plan's batch of {batch_size:,} fits no longer: {why}. Plan again"]


def _slow(step: float | None, question: CheckQuestion) -> list[str]:
    if step is None or question.expected_range is None or question.expected_seconds is None:
        return []
    low, high = question.expected_range
    beside = f"{quantity(step, 'seconds')}; when the plan was made {quantity(question.expected_seconds, 'seconds')}"
    if step > high:
        return [f"A step is slower than it was: {beside}. If nothing else uses the machine, plan again"]
    return [f"A step is faster than it was: {beside}. The plan holds; a new one may do better"] if step < low else []
