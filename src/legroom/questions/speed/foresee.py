"""What `legroom speed` will cost before it is asked."""

from collections.abc import Sequence

from legroom.logbook import Entry
from legroom.questions.base import START_SECONDS, Foreseen, ForeseenProbe
from legroom.questions.speed.records import TimeSteps
from legroom.questions.speed.step_runs import NUM_CONFIRMED, num_runs
from legroom.requests import Describe, MeasureDevice

DEVICE_SECONDS, SCOUT_SECONDS = 2.5, 0.5


def foresee_speed(entries: Sequence[Entry], *, job: str, machine: str, device: str, seconds: float) -> Foreseen:
    """Its probes; their times from earlier records of the job where there are any."""
    read = _longest(entries, Describe, START_SECONDS)
    peak = _longest(entries, MeasureDevice, DEVICE_SECONDS)
    looks = [
        entry.seconds
        for entry in entries
        if isinstance(entry.request, TimeSteps) and not (entry.request.close or entry.request.run)
    ]
    look = max(looks, default=SCOUT_SECONDS)
    probes = [
        ForeseenProbe(what="read the job in a child process", num_probes=(1, 1), seconds=(read, read)),
        ForeseenProbe(what="measure the device: matrix products, copies", num_probes=(1, 1), seconds=(peak, peak)),
        ForeseenProbe(what="a few steps at one size", num_probes=(4, 14), seconds=(4 * look, 14 * look)),
        *(_foresee_runs(seconds, read) if device == "cpu" else _foresee_rounds(seconds)),
    ]
    source = "earlier records of this job" if looks else "a small job on two cores; a heavy model takes longer"
    return Foreseen(job=job, machine=machine, seconds=0.0, notes=[f"Times are those of {source}"], probes=probes)


def _foresee_rounds(seconds: float) -> list[ForeseenProbe]:
    what = "4 to 10 sizes in rounds, then a close look at each"
    return [ForeseenProbe(what=what, num_probes=(1, 1), seconds=(5.0, 2 * seconds))]


def _foresee_runs(seconds: float, start: float) -> list[ForeseenProbe]:
    num = num_runs(seconds)
    return [
        ForeseenProbe(
            what="8 to 14 sizes in a fresh process",
            num_probes=(num, num),
            seconds=(num * start + 0.5 * seconds, num * start + 2 * seconds),
        ),
        ForeseenProbe(
            what="two of them with memory kept, sleeping threads or fewer, in a fresh process",
            num_probes=(2, 3 * NUM_CONFIRMED),
            seconds=(2 * (start + 1), 3 * NUM_CONFIRMED * (start + 2)),
        ),
    ]


def _longest(entries: Sequence[Entry], kind: type, otherwise: float) -> float:
    return max((entry.seconds for entry in entries if isinstance(entry.request, kind)), default=otherwise)
