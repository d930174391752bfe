"""What `legroom speed` will cost before it is asked."""

from collections.abc import Sequence

from legroom.advisors.foresee import START_SECONDS, Foreseen, ForeseenProbe
from legroom.records import KEPT_SHARE, Describe, Entry, MeasureDevice, TimeSteps

DEVICE_SECONDS, SCOUT_SECONDS = 2.5, 0.5


def foresee_speed(entries: Sequence[Entry], *, job: str, machine: str, seconds: float) -> Foreseen:
    """Its probes; their times from earlier records of the job where there are any."""
    read = _longest(entries, Describe, START_SECONDS)
    device = _longest(entries, MeasureDevice, DEVICE_SECONDS)
    looks = [
        entry.seconds
        for entry in entries
        if isinstance(entry.request, TimeSteps) and not (entry.request.close or entry.request.keeps_memory)
    ]
    look = max(looks, default=SCOUT_SECONDS)
    probes = [
        ForeseenProbe(what="read the job in a child process", num_probes=(1, 1), seconds=(read, read)),
        ForeseenProbe(what="measure the device: matrix products, copies", num_probes=(1, 1), seconds=(device, device)),
        ForeseenProbe(what="a few steps at one size", num_probes=(4, 14), seconds=(4 * look, 14 * look)),
        ForeseenProbe(
            what="4 to 10 sizes in rounds, then a close look at each", num_probes=(1, 1), seconds=(5.0, 2 * seconds)
        ),
        ForeseenProbe(
            what="on a CPU, two of them with memory kept, where fetching it anew takes long",
            num_probes=(0, 1),
            seconds=(0.0, read + KEPT_SHARE * seconds),
        ),
    ]
    source = "earlier records of this job" if looks else "a small job on two cores; a heavy model takes longer"
    return Foreseen(job=job, machine=machine, seconds=0.0, notes=[f"Times are those of {source}"], probes=probes)


def _longest(entries: Sequence[Entry], kind: type, otherwise: float) -> float:
    return max((entry.seconds for entry in entries if isinstance(entry.request, kind)), default=otherwise)
