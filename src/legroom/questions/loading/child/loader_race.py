"""Rates of several loaders, in turns: on a busy machine only settings measured side by side can be ranked."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock, monotonic
from legroom.errors import OutOfMemory
from legroom.job import Batch
from legroom.questions.loading.child.kept_lanes import close_kept, enter_lanes, keep_lanes
from legroom.questions.loading.child.lane_failures import LaneFailed, hush_deaths
from legroom.questions.loading.child.open_lane import OpenLane, close_lanes
from legroom.questions.loading.child.room import fit_together
from legroom.questions.loading.child.step_alone import step_rate
from legroom.questions.loading.child.timed_lane import TimedLane
from legroom.questions.loading.records import Lane, LaneRate, LoaderRates, RaceLoaders


def race_loaders(request: RaceLoaders, built: BuiltJob, clock: Clock = monotonic) -> LoaderRates:
    """Every lane's rate; a lane that cannot run here says why, and the others go on."""
    torch.manual_seed(request.seed)
    began = clock()
    close_kept(built, but=None if request.what == "step" else request)
    closing_seconds = clock() - began
    if request.what == "step":
        return LoaderRates(lanes=[step_rate(request, built, clock)], close_seconds=closing_seconds)
    consume = consumer(request.what, built, torch.device(request.device), request.precision)
    found = [_race_explained(part, built, consume, clock) for part in _heats(request, built)]
    return LoaderRates(
        lanes=[rate for part in found for rate in part.lanes],
        close_seconds=closing_seconds + sum(part.close_seconds for part in found),
    )


def _heats(request: RaceLoaders, built: BuiltJob) -> list[RaceLoaders]:
    """The race whole, or one lane after the other where all of them would not fit into /dev/shm or memory at once."""
    if fit_together(request.lanes, built, request.batch_size):
        return [request]
    close_kept(built)  # they hold some of what is missing, or what makes it seem so
    if fit_together(request.lanes, built, request.batch_size):
        return [request]
    return [replace(request, lanes=(lane,), keep=False) for lane in request.lanes]


def _race_explained(
    request: RaceLoaders, built: BuiltJob, consume: Callable[[Batch], Any], clock: Clock
) -> LoaderRates:
    lanes = enter_lanes(request, built, clock)
    try:
        return _race(request, built, lanes, consume, clock)
    except (RuntimeError, OSError, EOFError) as error:  # torch tells of a dead worker in the middle of anything
        _explain_deaths(list(lanes.values()), error)
        raise


def _race(
    request: RaceLoaders, built: BuiltJob, entered: dict[Lane, OpenLane], consume: Callable[[Batch], Any], clock: Clock
) -> LoaderRates:
    rates: dict[Lane, LaneRate] = {}
    lanes = list(entered.values())
    with ExitStack() as stack:
        stack.callback(close_lanes, lanes)
        for entrant in lanes:
            with _noting_failure(entrant, lanes, rates):
                entrant.start()
                entrant.rest()
        timed = [TimedLane(entrant, consume) for entrant in lanes]
        for _ in range(request.num_rounds):
            for runner in [runner for runner in timed if runner.lane.lane not in rates]:
                with _noting_failure(runner.lane, lanes, rates):
                    runner.window(request.window_seconds, request.num_batches)
        rates |= {runner.lane.lane: runner.rate() for runner in timed if runner.lane.lane not in rates}
        if request.keep and all(rate.outcome == "measured" for rate in rates.values()):
            stack.pop_all()
            keep_lanes(request, built, entered)
        ended = clock()
    return LoaderRates(lanes=[rates[lane] for lane in request.lanes], close_seconds=clock() - ended)


def _explain_deaths(lanes: list[OpenLane], error: Exception) -> None:
    hush_deaths()
    for lane in lanes:
        try:
            lane.explain_death(error)
        except LaneFailed as failed:
            raise OutOfMemory(failed.reason) from error


@contextmanager
def _noting_failure(entrant: OpenLane, running: list[OpenLane], rates: dict[Lane, LaneRate]) -> Iterator[None]:
    """Write down why the lane cannot go on; blame the lane whose worker died, which may be another's."""
    try:
        yield
    except LaneFailed as failed:
        rates[entrant.lane] = _failed(entrant.lane, failed)
        entrant.close()  # what it holds of /dev/shm may be what the others lack
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


def consumer(what: str, built: BuiltJob, device: torch.device, precision: str) -> Callable[[Batch], Any]:
    """What a batch is for: a training step, or nothing."""
    if what == "load":
        return lambda batch: None
    step = built.training_step(device, precision, lambda phase: None)
    return lambda batch: step([batch])
