"""What a question will cost before it is asked: its probes, and the time they should take."""

import statistics
from collections.abc import Sequence

from legroom.logbook import Entry
from legroom.questions.base import START_SECONDS, Foreseen, ForeseenProbe
from legroom.questions.memory.records import StepPeaks, TraceMemory
from legroom.requests import Describe


def foresee_memory(entries: Sequence[Entry], *, job: str, machine: str, is_here: bool) -> Foreseen:
    """The probes of `legroom memory`; their times from earlier records of the job where there are any."""
    reading = _median([e.seconds for e in entries if isinstance(e.request, Describe)], START_SECONDS)
    read = ForeseenProbe(what="read the job in a child process", num_probes=(1, 1), seconds=(reading, reading))
    probes = [read, *(_measured(entries) if is_here else _traced(entries))]
    source = "earlier records of this job" if entries else "a small job on two cores; a heavy model takes longer"
    return Foreseen(job=job, machine=machine, seconds=0.0, notes=[f"Times are those of {source}"], probes=probes)


def _measured(entries: Sequence[Entry]) -> list[ForeseenProbe]:
    peaks = [e for e in entries if isinstance(e.request, StepPeaks)]
    probe = _median([e.seconds for e in peaks if not e.request.fresh], 0.5)
    proof = _median([e.seconds for e in peaks if e.request.fresh], START_SECONDS + 2.0)
    return [
        ForeseenProbe(
            what="3 training steps and an evaluation pass at a small batch size",
            num_probes=(3, 9),
            seconds=(3 * probe, 9 * probe),
        ),
        ForeseenProbe(
            what="proof: 5 training steps and two evaluation passes in a fresh process",
            num_probes=(1, 5),
            seconds=(proof, 5 * proof),
        ),
    ]


def _traced(entries: Sequence[Entry]) -> list[ForeseenProbe]:
    trace = _median([e.seconds for e in entries if isinstance(e.request, TraceMemory)], START_SECONDS + 5.0)
    what = "trace a step without running it on a GPU, in a fresh process"
    return [ForeseenProbe(what=what, num_probes=(1, 3), seconds=(trace, 3 * trace))]


def _median(values: list[float], otherwise: float) -> float:
    return statistics.median(values) if values else otherwise
