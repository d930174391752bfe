"""What is said about loading: reasons, notes, and what was not measured."""

from collections.abc import Iterable

from legroom.laws.loading import WORKER_BYTES
from legroom.questions.base import Recommendation
from legroom.questions.loading.evidence import Evidence
from legroom.questions.loading.records import LoaderSettings, LoaderThroughput
from legroom.units import format_bytes, format_seconds

STARVED = 0.95
"""Share of what the device takes below which it is said to starve."""
BUSY_SPREAD = 0.4
"""Turns that differ by more are told: alone on a machine they differ by 5 to 20 %."""


def recommendations_from(seen: Evidence, span: tuple[int, int]) -> list[Recommendation]:
    """Workers and batches ahead, with what they reached."""
    chosen, reached, device = seen.chosen, seen.throughputs[seen.chosen], seen.device_throughput
    who = f"with {_workers(chosen.num_workers)}" if chosen.num_workers else "without workers"
    workers = Recommendation(
        name="num_workers",
        value=chosen.num_workers,
        range=span,
        because=f"{who} the step gets {reached:,.0f} samples/s; alone, with data ready, it takes {device:,.0f}",
        evidence=["loader_rates"],
    )
    if not chosen.num_workers:
        return [workers]
    because = "twice as many ahead gained more than 2 %" if chosen.prefetch_factor > 2 else "torch's own is enough"
    return [workers, Recommendation(name="prefetch_factor", value=chosen.prefetch_factor, range=None, because=because)]


def _workers(num: int) -> str:
    return "no workers" if num == 0 else "1 worker" if num == 1 else f"{num} workers"


def notes_on(seen: Evidence) -> Iterable[str]:
    """What a person should know beside the numbers."""
    if _starves(seen) and seen.question.rule == "legroom":
        yield _starved(seen)
    if seen.cliff is not None:
        yield _falls(seen, seen.cliff)
    for failed in _unlike(seen.failed):
        way = ". Define at the top of a module what the data set holds" if failed.outcome == "unpicklable" else ""
        yield f"{_workers(failed.lane.num_workers)} could not run: {failed.reason}{way}"
    if not all(one.has_finite_loss for one in seen.together):
        yield (
            "The loss was no finite number in the end of a turn: the times hold, and training may not. Look for "
            "samples that hold NaN, or for a rate too high for this batch"
        )
    if seen.repeats_samples:
        yield (
            "Every worker of this iterable data set gives all samples, so an epoch repeats each as often as there are "
            "workers. Split them by torch.utils.data.get_worker_info() before using more than one"
        )
    asked = [one for one in seen.together if one.lane.num_workers and one.num_processes != one.lane.num_workers]
    if asked:
        one = asked[0]
        yield f"The job's own loader started {one.num_processes} processes where {one.lane.num_workers} were asked for"
    yield from _twins(seen)
    spread = max(one.spread for one in [seen.step, *seen.together])
    if spread > BUSY_SPREAD:
        yield (
            f"The machine was busy: turns of the same setting differ by up to {spread:.0%}. Settings closer to each "
            "other than that were hardly told apart; ask again when it is quiet"
        )
    if seen.chosen.num_workers:
        first = min(one.start_seconds for one in seen.together if one.lane == seen.chosen)
        yield f"Persistent workers save {format_seconds(first)} at the start of every epoch"


def _starves(seen: Evidence) -> bool:
    return seen.throughputs[seen.chosen] < STARVED * seen.device_throughput


def _starved(seen: Evidence) -> str:
    """That no setting feeds the device, and on a CPU why that is no fault of a setting."""
    share, most_tried = f"{seen.throughputs[seen.chosen] / seen.device_throughput:.0%}", max(seen.by_count)
    if most_tried == 0:
        return f"Without workers the device gets {share} of what it takes, and no worker could be tried"
    tried = f"up to {most_tried} were tried, and the best setting reaches"
    if seen.question.device == "cpu":
        return (
            "No number of workers gives the step all it could take, as step and workers share the same cores: "
            f"{tried} {share} of the throughput of the step alone"
        )
    return f"No number of workers feeds the device: {tried} {share} of what it takes"


def _falls(seen: Evidence, cliff: int) -> str:
    """That more workers are a loss, and that the law is no guide here."""
    chosen = seen.chosen.num_workers
    left = f"{seen.by_count[cliff] / seen.by_count[chosen]:.0%}"
    return (
        f"More workers fall off a cliff: {_workers(cliff)} reach {left} of what {_workers(chosen)} do. The law of the "
        "loader knows no such fall, so that only numbers of workers that ran are known"
    )


def _unlike(failed: Iterable[LoaderThroughput]) -> Iterable[LoaderThroughput]:
    by_reason = {one.reason: one for one in reversed(list(failed))}
    return by_reason.values()


def _twins(seen: Evidence) -> Iterable[str]:
    """What one BLAS thread and pinned memory changed, where they were compared with their absence."""
    for settings, throughput in seen.throughputs.items():
        for what, is_without in (
            ("one BLAS thread in each worker", settings.blas_threads is None),
            ("pinned memory", not settings.pin_memory),
        ):
            twin = LoaderSettings(num_workers=settings.num_workers, prefetch_factor=settings.prefetch_factor)
            if is_without and twin in seen.throughputs:
                gain = seen.throughputs[twin] / throughput - 1
                yield f"With {what} the throughput is {gain:+.0%} against without"


def what_is_not_measured(seen: Evidence) -> list[str]:
    """What the answer does not know, as sentences."""
    sentences = []
    if seen.cold is not None and seen.cold.not_measured:
        sentences.append(seen.cold.not_measured)
    if not any(one.num_processes for one in [*seen.alone.values(), *seen.together]):
        sentences.append(f"memory of a worker: none ran, so {format_bytes(WORKER_BYTES)} stand for it")
    if seen.question.num_devices > 1:
        sentences.append(
            f"{seen.question.num_devices} devices at once: one was run; cores and memory were shared out by the law"
        )
    return [*sentences, *_limited_by_shm(seen)]


def _limited_by_shm(seen: Evidence) -> Iterable[str]:
    """That /dev/shm holds no worker, or fewer than the device asks for."""
    if seen.question.shm_bytes is None:
        return
    most, free = seen.most_in_memory(worker_bytes=0), format_bytes(seen.question.shm_bytes)
    size, top = format_bytes(seen.step.batch_bytes), max(seen.by_count)
    way = "Enlarge it (docker run --shm-size) or lower the batch"
    if most < 1:
        yield f"any worker: a batch of {size} twice ahead does not fit into {free} of /dev/shm. {way}"
    elif _starves(seen) and top >= most and seen.by_count[top] >= STARVED * max(seen.by_count.values()):
        held = f"each holds up to 2 batches of {size} in /dev/shm"
        yield f"more than {_workers(most)}: {held}, and {free} are free. {way}"
