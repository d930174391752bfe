"""The thesis' joint choice of workers and batch, measured as it was made, then run once to be compared."""

from dataclasses import replace

from legroom.errors import DoesNotFit
from legroom.laws.loading import thesis_workers
from legroom.laws.thesis import SIZES
from legroom.questions.loading.races import INLINE, ask_race
from legroom.questions.loading.records import Lane, LoadingQuestion
from legroom.requests import JobDescription
from legroom.session import Session
from legroom.units import format_bytes

NUM_ITERATIONS = 50


def measure_loading_thesis(
    session: Session, question: LoadingQuestion, description: JobDescription, largest_batch: int
) -> tuple[LoadingQuestion, list[float]]:
    """The question at the thesis' batch, its workers raced, and the two ratios t_d / t_g behind them."""
    ratios = [_ratio(session, question, size, share) for share, size in enumerate(SIZES)]
    num_workers, batch_size = thesis_workers(
        ratios,
        num_devices=question.num_devices,
        memory_bytes=question.available_bytes,
        sample_bytes=description.sample_bytes[2],
        largest_batch=largest_batch,
    )
    if batch_size < 1:
        raise DoesNotFit(
            f"By the thesis' rule {num_workers} workers are needed, and {format_bytes(question.available_bytes)} "
            "of host memory do not hold one sample for each"
        )
    found = replace(question, batch_size=batch_size)
    session.progress(f"{num_workers} workers at a batch of {batch_size:,}", 0.8)
    ask_race(session, found.race("step", (INLINE,)))
    (rate,) = ask_race(session, found.race("together", (Lane(num_workers=num_workers),))).lanes
    if rate.outcome != "measured":
        raise DoesNotFit(
            f"By the thesis' rule {num_workers} workers are needed at a batch of {batch_size:,}, and they could not "
            f"run: {rate.reason}"
        )
    return found, ratios


def _ratio(session: Session, question: LoadingQuestion, batch_size: int, share: int) -> float:
    """Mean seconds to fetch a batch without workers over mean seconds to process it."""
    session.progress(f"batch of {batch_size}", 0.2 + 0.3 * share)
    seconds = []
    for what in ("load", "step"):
        race = replace(question, batch_size=batch_size).race(what, (INLINE,), num_rounds=1)
        seconds.append(ask_race(session, replace(race, num_batches=NUM_ITERATIONS)).lanes[0].median_seconds)
    return seconds[0] / seconds[1]
