"""What is said about loading: reasons, notes, and what was not measured."""

from collections.abc import Iterable

from legroom.laws.loading import WORKER_BYTES
from legroom.questions.base import Recommendation
from legroom.questions.loading.evidence import Evidence, most_workers
from legroom.questions.loading.records import Lane, LaneRate, LoadingQuestion
from legroom.units import format_bytes, format_seconds

STARVED = 0.95
"""Share of what the device eats below which it is said to starve."""
BUSY_SPREAD = 0.4
"""Turns that differ by more are told: alone on a machine they differ by 5 to 20 %."""


def loading_recommendations(seen: Evidence, span: tuple[int, int]) -> list[Recommendation]:
    """Workers and batches ahead, with what they reached."""
    chosen = seen.chosen
    rate, eats = seen.rates[chosen], seen.eats
    who = f"with {_workers(chosen.num_workers)}" if chosen.num_workers else "without workers"
    reached = f"{who} the step gets {rate:,.0f} samples/s; alone, with data ready, it takes {eats:,.0f}"
    made = [
        Recommendation(
            name="num_workers", value=chosen.num_workers, range=span, because=reached, evidence=["loader_rates"]
        )
    ]
    if chosen.num_workers:
        because = "twice as many ahead gained more than 2 %" if chosen.prefetch_factor > 2 else "torch's own is enough"
        made.append(
            Recommendation(
                name="prefetch_factor", value=chosen.prefetch_factor, range=None, because=because, evidence=[]
            )
        )
    return made


def _workers(num: int) -> str:
    return "no workers" if num == 0 else "1 worker" if num == 1 else f"{num} workers"


def loading_notes(seen: Evidence, question: LoadingQuestion) -> Iterable[str]:
    """What a person should know beside the numbers."""
    chosen = seen.chosen
    rate, eats = seen.rates[chosen], seen.eats
    most_tried = max(lane.num_workers for lane in seen.rates)
    if rate < STARVED * eats and most_tried == 0:
        yield f"Without workers the device gets {rate / eats:.0%} of what it eats, and no worker could be tried"
    elif rate < STARVED * eats:
        yield _starved(f"{rate / eats:.0%}", most_tried, question)
    for failed in _unlike(seen.failed):
        way = ". Define at the top of a module what the data set holds" if failed.outcome == "unpicklable" else ""
        yield f"{_workers(failed.lane.num_workers)} could not run: {failed.reason}{way}"
    if seen.repeats_samples:
        yield (
            "Every worker of this iterable data set gives all samples, so an epoch repeats each as often as there are "
            "workers. Split them by torch.utils.data.get_worker_info() before using more than one"
        )
    asked = [one for one in seen.together if one.lane.num_workers and one.num_processes != one.lane.num_workers]
    if asked:
        one = asked[0]
        yield f"The job's own loader started {one.num_processes} processes where {one.lane.num_workers} were asked for"
    yield from _comparisons(seen)
    spread = max(one.spread for one in [seen.step, *seen.together])
    if spread > BUSY_SPREAD:
        yield (
            f"The machine was busy: turns of the same setting differ by up to {spread:.0%}. Settings closer to each "
            "other than that were hardly told apart; ask again when it is quiet"
        )
    first = [one.start_seconds for one in seen.together if one.lane == chosen]
    if chosen.num_workers and first:
        yield f"Persistent workers save {format_seconds(min(first))} at the start of every epoch"


def _starved(share: str, most_tried: int, question: LoadingQuestion) -> str:
    """That no setting feeds the device, and on a CPU why that is no fault of a setting."""
    tried = f"up to {most_tried} were tried, and the best setting reaches"
    if question.device == "cpu":
        return (
            "No number of workers gives the step all it could take, as step and workers share the same cores: "
            f"{tried} {share} of the rate of the step alone"
        )
    return f"No number of workers feeds the device: {tried} {share} of what it eats"


def _unlike(failed: Iterable[LaneRate]) -> Iterable[LaneRate]:
    by_reason = {rate.reason: rate for rate in reversed(list(failed))}
    return by_reason.values()


def _comparisons(seen: Evidence) -> Iterable[str]:
    """What one BLAS thread and pinned memory changed, where they were raced against their absence."""
    for lane, rate in seen.rates.items():
        for what, other in (
            ("one BLAS thread in each worker", lane.blas_threads is None),
            ("pinned memory", not lane.pin_memory),
        ):
            twin = Lane(num_workers=lane.num_workers, prefetch_factor=lane.prefetch_factor)
            if other and twin in seen.rates:
                yield f"With {what} the rate is {seen.rates[twin] / rate - 1:+.0%} against without"


def loading_not_measured(seen: Evidence, question: LoadingQuestion) -> list[str]:
    """What the answer does not know, as sentences."""
    sentences = []
    if seen.cold is not None and seen.cold.not_measured:
        sentences.append(seen.cold.not_measured)
    if not any(one.num_processes for one in [*seen.load.values(), *seen.together]):
        sentences.append(f"memory of a worker: none ran, so {format_bytes(WORKER_BYTES)} stand for it")
    if question.num_devices > 1:
        sentences.append(
            f"{question.num_devices} devices at once: one was run; cores and memory were shared out by the law"
        )
    return [*sentences, *_limited_by_shm(seen, question)]


def _top_is_best(seen: Evidence) -> int:
    """The largest number of workers tried, if none was much faster; else 0."""
    top = max(seen.rates, key=lambda lane: lane.num_workers)
    return top.num_workers if seen.rates[top] >= STARVED * max(seen.rates.values()) else 0


def _limited_by_shm(seen: Evidence, question: LoadingQuestion) -> Iterable[str]:
    """That /dev/shm holds no worker, or fewer than the device asks for."""
    if question.shm_bytes is None:
        return
    most, free = most_workers(seen, question, 0, 1, 2), format_bytes(question.shm_bytes)
    size = format_bytes(seen.step.batch_bytes)
    way = "Enlarge it (docker run --shm-size) or lower the batch"
    if most < 1:
        yield f"any worker: a batch of {size} twice ahead does not fit into {free} of /dev/shm. {way}"
    elif seen.rates[seen.chosen] < STARVED * seen.eats and _top_is_best(seen) >= most:
        held = f"each holds up to 2 batches of {size} in /dev/shm"
        yield f"more than {_workers(most)}: {held}, and {free} are free. {way}"
