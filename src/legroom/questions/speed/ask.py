"""`legroom speed`: where does a larger batch stop paying?"""

import math
from collections.abc import Mapping, Sequence

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.target import check_cuda, choose_target
from legroom.job_address import AnyJob, address_of
from legroom.laws.memory import LARGEST_BATCH
from legroom.logbook import Entry
from legroom.questions.base import START_SECONDS, Foreseen, ForeseenProbe, check_precision, check_word, foreseen_probe
from legroom.questions.speed.advice import advise, advise_environment
from legroom.questions.speed.answer import EnvironmentAnswer, SpeedAnswer
from legroom.questions.speed.environment import take_turns
from legroom.questions.speed.evidence import NUM_CONFIRMED
from legroom.questions.speed.records import SpeedQuestion, TimeSteps
from legroom.questions.speed.search import MOST, measure_speed, num_runs, num_whole_runs
from legroom.requests import Describe, MeasureDevice
from legroom.session import Run, earlier_entries, keep, open_session

RULES = ("throughput", "utilisation")
LEAST_SECONDS = 1.0
DEVICE_SECONDS, LOOK_SECONDS = 2.5, 0.5
"""What measuring the device and a first look take on two cores."""


def speed(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_sizes: Sequence[int] = (),
    rule: str = "throughput",
    share: float = 0.9,
    seconds: float = 15.0,
    precision: str | None = None,
    quick: bool = False,
    most_looking: float = math.inf,
    run: Run | None = None,
) -> SpeedAnswer:
    """Where does a larger batch stop paying? Sizes timed in rounds, a law through four, the knee.

    quick: look at each size once, in seconds instead of a minute; the knee is then less sure. most_looking: seconds of
    these looks, beyond which the job's own size alone is looked at.
    """
    run = run or Run()
    address = address_of(job, options)
    _check_words(run.host, device, batch_sizes, rule, share, seconds, precision)
    target = choose_target(run.host, device)
    with open_session("speed", address, run, alone=target.device == "cpu") as session:
        description = session.describe(run.seed)
        question = SpeedQuestion(
            precision=precision or description.baseline["precision"],
            device=target.device,
            batch_sizes=tuple(batch_sizes),
            rule=rule,  # type: ignore[arg-type]
            share=share,
            seconds=seconds,
            quick=quick,
            passing=description.baseline["batch_size"] if quick and target.device == "cpu" and not batch_sizes else 0,
            seed=run.seed,
        ).below(description, session.logbook.known)
        session.note(question)
        measure_speed(session, question, most_looking)
        return keep(session, advise(session.records, question))


def environment(
    job: AnyJob = "digits",
    *,
    batch_size: int,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str | None = None,
    budget: float = 30.0,
    run: Run | None = None,
) -> EnvironmentAnswer:
    """Which variables of the environment pay at a batch size? On a CPU alone; what it finds is kept by who asks.

    budget: seconds, beyond which no process is started.
    """
    run = run or Run()
    address = address_of(job, options)
    target = choose_target(run.host, device)
    with open_session("environment", address, run, alone=target.device == "cpu") as session:
        description = session.describe(run.seed)
        own = description.baseline["precision"]
        question = SpeedQuestion(precision=precision or own, device=target.device, seed=run.seed)
        turns = take_turns(session, question, batch_size, budget) if target.device == "cpu" else []
        return advise_environment(session.records, question, batch_size, turns)


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    seconds: float = 15.0,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `speed` run, and how long should they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    device, entries = choose_target(run.host, device).device, earlier_entries(address, run)
    read = _longest(entries, Describe, START_SECONDS)
    timed = [(entry.request, entry.seconds) for entry in entries if isinstance(entry.request, TimeSteps)]
    looks = [spent for request, spent in timed if not (request.close or request.run)]
    what = "4 to 10 sizes in rounds, then each in detail"
    rounds = ForeseenProbe(what=what, num_probes=(1, 1), seconds=(5.0, 2 * seconds))
    probes = [
        foreseen_probe("read the job in a child process", (1, 1), read),
        foreseen_probe(
            "measure the device: matrix products, copies", (1, 1), _longest(entries, MeasureDevice, DEVICE_SECONDS)
        ),
        foreseen_probe("a few steps at one size", (4, 14), max(looks, default=LOOK_SECONDS)),
        *(_foresee_runs(seconds, read) if device == "cpu" else [rounds]),
    ]
    source = "earlier records of this job" if looks else "a small job on two cores; a heavy model takes longer"
    notes = [f"Times are those of {source}"]
    return Foreseen(job=address.text, machine=run.host.name, seconds=0.0, notes=notes, probes=probes)


def _foresee_runs(seconds: float, start: float) -> list[ForeseenProbe]:
    num, least = num_runs(seconds), num_whole_runs(seconds)
    return [
        ForeseenProbe(
            what="8 to 14 sizes in a fresh process, then those near the knee in others",
            num_probes=(least, MOST),
            seconds=(least * start + 0.3 * seconds, num * start + 2 * seconds),
        ),
        ForeseenProbe(
            what="two of them with memory kept, sleeping threads or fewer, in a fresh process",
            num_probes=(2, 3 * NUM_CONFIRMED),
            seconds=(2 * (start + 1), 3 * NUM_CONFIRMED * (start + 2)),
        ),
    ]


def _longest(entries: Sequence[Entry], kind: type, otherwise: float) -> float:
    return max((entry.seconds for entry in entries if isinstance(entry.request, kind)), default=otherwise)


def _check_words(
    host: Host, device: str, sizes: Sequence[int], rule: str, share: float, seconds: float, precision: str | None
) -> None:
    """Refuse what cannot be asked before the job is read."""
    for size in sizes:
        if not 1 <= size <= LARGEST_BATCH:
            raise UsageError(f"--batch-sizes names {size:,}; sizes are from 1 to {LARGEST_BATCH:,}")
    check_word("rule", rule, RULES)
    if not 0 < share <= 1:
        raise UsageError(f"--share is {share:g}; it must be above 0 and at most 1, as 0.9 for 90 % of the best")
    if not LEAST_SECONDS <= seconds < float("inf"):
        raise UsageError(f"--seconds is {seconds:g}; it must be at least {LEAST_SECONDS:g}")
    check_precision(precision)
    check_cuda(host, device)
