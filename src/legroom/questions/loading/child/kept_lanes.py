"""Loaders that stay open from one race to the next: starting a worker takes longer than a turn of it is worth."""

from weakref import WeakKeyDictionary

from legroom.child.built_job import BuiltJob
from legroom.clock import Clock
from legroom.questions.loading.child.open_lane import OpenLane, close_lanes, open_lane
from legroom.questions.loading.records import Lane, RaceLoaders

_kept: WeakKeyDictionary[BuiltJob, dict[tuple[str, int, Lane], OpenLane]] = WeakKeyDictionary()
"""By device, batch size and lane. Their workers rest."""


def enter_lanes(request: RaceLoaders, built: BuiltJob, clock: Clock) -> dict[Lane, OpenLane]:
    """The request's lanes, in its order: those kept, and new ones that are not started yet."""
    kept = _kept.pop(built, {})
    wanted = {lane: (request.device, request.batch_size, lane) for lane in request.lanes}
    return {lane: kept.get(key) or open_lane(request, built, lane, clock) for lane, key in wanted.items()}


def keep_lanes(request: RaceLoaders, built: BuiltJob, lanes: dict[Lane, OpenLane]) -> None:
    """Let these rest until the next race of the same built."""
    _kept[built] = {(request.device, request.batch_size, lane): entrant for lane, entrant in lanes.items()}


def close_kept(built: BuiltJob, but: RaceLoaders | None = None) -> None:
    """End what is kept, but for the lanes of a request."""
    spared = {(but.device, but.batch_size, lane) for lane in but.lanes} if but else set()
    kept = _kept.get(built, {})
    close_lanes([kept.pop(key) for key in kept.keys() - spared])
