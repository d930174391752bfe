"""Rates of several loaders, in turns: on a busy machine only settings measured side by side can be ranked."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import torch

from legroom.clock import Clock, monotonic
from legroom.errors import OutOfMemory
from legroom.job import Batch
from legroom.probes.bench import Bench
from legroom.probes.lane_failures import LaneFailed, hush_deaths
from legroom.probes.open_lane import OpenLane, open_lane
from legroom.probes.step_alone import step_rate
from legroom.records import Lane, LaneRate, LoaderRates, RaceLoaders


def race_loaders(request: RaceLoaders, bench: Bench, clock: Clock = monotonic) -> LoaderRates:
    """Every lane's rate; a lane that cannot run here says why, and the others go on."""
    torch.manual_seed(request.seed)
    if request.what == "step":
        return LoaderRates(lanes=[step_rate(request, bench, clock)])
    consume = consumer(request.what, bench, torch.device(request.device), request.precision)
    lanes = [open_lane(request, bench, lane, consume, clock) for lane in request.lanes]
    try:
        rates = _race(request, lanes)
    except (RuntimeError, OSError, EOFError) as error:  # torch tells of a dead worker in the middle of anything
        _explain_deaths(lanes, error)
        raise
    return LoaderRates(lanes=[rates[lane] for lane in request.lanes])


def _race(request: RaceLoaders, lanes: list[OpenLane]) -> dict[Lane, LaneRate]:
    rates: dict[Lane, LaneRate] = {}
    with ExitStack() as stack:
        for entrant in lanes:
            stack.enter_context(closing(entrant))
            with _noting_failure(entrant.lane, lanes, rates):
                entrant.start()
                entrant.rest()
        for _ in range(request.num_rounds):
            for entrant in [entrant for entrant in lanes if entrant.lane not in rates]:
                with _noting_failure(entrant.lane, lanes, rates):
                    entrant.window(request.window_seconds, request.num_batches)
        rates |= {entrant.lane: entrant.rate() for entrant in lanes if entrant.lane not in rates}
    return rates


def _explain_deaths(lanes: list[OpenLane], error: Exception) -> None:
    hush_deaths()
    for lane in lanes:
        try:
            lane.explain_death(error)
        except LaneFailed as failed:
            raise OutOfMemory(failed.reason) from error


@contextmanager
def _noting_failure(lane: Lane, running: list[OpenLane], rates: dict[Lane, LaneRate]) -> Iterator[None]:
    """Write down why the lane cannot go on; blame the lane whose worker died, which may be another's."""
    try:
        yield
    except LaneFailed as failed:
        rates[lane] = _failed(lane, failed)
    except RuntimeError as error:
        for other in running:
            try:
                other.explain_death(error)
            except LaneFailed as failed:
                rates[other.lane] = _failed(other.lane, failed)
                return
        raise


def _failed(lane: Lane, failed: LaneFailed) -> LaneRate:
    return LaneRate(lane=lane, outcome=failed.outcome, reason=failed.reason)  # type: ignore[arg-type]


def consumer(what: str, bench: Bench, device: torch.device, precision: str) -> Callable[[Batch], Any]:
    """What a batch is for: a training step, or nothing."""
    if what == "load":
        return lambda batch: None
    step = bench.training_step(device, precision, lambda phase: None)
    return lambda batch: step([batch])
