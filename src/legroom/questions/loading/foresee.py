"""What `legroom loading` will cost before it is asked."""

from collections.abc import Sequence

from legroom.logbook import Entry
from legroom.questions.base import START_SECONDS, Foreseen, ForeseenProbe
from legroom.questions.loading.records import RaceLoaders, ReadCold
from legroom.requests import Describe

PROBES = (
    ("the step alone, on a few batches", (1, 1), 1.5),
    ("the loader alone with 0, 1 and as many workers as cores", (1, 1), 2.5),
    ("loaders raced against each other together with the step", (1, 7), 4.0),
    ("cold storage: the same batches with files in the page cache and dropped from it", (1, 1), 2.0),
)


def foresee_loading(entries: Sequence[Entry], *, job: str, machine: str) -> Foreseen:
    """Its probes; their times from earlier records of the job where there are any."""
    read = [entry.seconds for entry in entries if isinstance(entry.request, Describe)]
    seconds = max(read, default=START_SECONDS)
    probes = [ForeseenProbe(what="read the job in a child process", num_probes=(1, 1), seconds=(seconds, seconds))]
    known = [_seconds(entries, what) for what in ("step", "load", "together", "cold")]
    for (what, (least, most), guess), found in zip(PROBES, known, strict=True):
        each = found or guess
        probes.append(ForeseenProbe(what=what, num_probes=(least, most), seconds=(least * each, most * each)))
    source = "earlier records of this job" if any(known) else "a small job on two cores; slow data take longer"
    return Foreseen(job=job, machine=machine, seconds=0.0, notes=[f"Times are those of {source}"], probes=probes)


def _seconds(entries: Sequence[Entry], what: str) -> float:
    """The longest time a probe of that kind took before; 0 where none was made."""
    return max((entry.seconds for entry in entries if _kind(entry) == what), default=0.0)


def _kind(entry: Entry) -> str:
    request = entry.request
    return "cold" if isinstance(request, ReadCold) else request.what if isinstance(request, RaceLoaders) else ""
