"""`legroom sweep`: every batch size at every rate, trained with early stopping."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.target import check_cuda, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.questions.base import (
    START_SECONDS,
    Foreseen,
    ForeseenProbe,
    check_counts,
    check_precision,
    foreseen_probe,
    typical_seconds,
)
from legroom.questions.sweep.advice import advise
from legroom.questions.sweep.answer import SweepAnswer
from legroom.questions.sweep.records import SweepQuestion
from legroom.questions.sweep.search import run_trials
from legroom.requests import Describe, JobDescription
from legroom.session import Run, earlier_entries, keep, open_session
from legroom.setting_rules import check_workers, lacks
from legroom.training.records import Train

RATES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Where none are named: decades, as grids of the literature have them."""
FACTORS = (0.25, 1, 4, 16)
"""On the job's own batch size, where none are named."""
PATIENCE = 3
TRIAL_SECONDS = 20.0
"""Of a trial where nothing is known of the job: a small one on two cores."""


def sweep(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_sizes: Sequence[int] = (),
    rates: Sequence[float] = RATES,
    workers: Sequence[int] = (),
    epochs: int | None = None,
    seconds: float | None = None,
    patience: int = PATIENCE,
    together: int = 1,
    precision: str | None = None,
    run: Run | None = None,
) -> SweepAnswer:
    """Train every batch size at every rate until it no longer gains; which is best, and how long does each take?

    batch_sizes: a quarter, once, 4 and 16 times the job's own where absent. workers: the job's own where absent.
    epochs: of a trial at most, the job's own where absent. seconds: of a trial at most.
    patience: evaluations, one an epoch, without gain that end a trial. together: trials at once.
    """
    run = run or Run()
    address = address_of(job, options)
    _check_words(run.host, device, batch_sizes, rates, workers, epochs, seconds, patience, together, precision)
    place = choose_target(run.host, device).device
    with open_session("sweep", address, run) as session:
        description = session.describe(run.seed)
        _refuse(description)
        own = description.baseline
        sizes = tuple(batch_sizes) or tuple(max(1, int(own["batch_size"] * factor)) for factor in FACTORS)
        limit = description.data_limit or math.inf
        fitting = tuple(size for size in sizes if size <= limit)
        if not fitting:
            raise UsageError(f"Every batch size is more than the {limit:,} samples there are. Name smaller ones")
        given = {"precision": precision, "num_epochs": epochs}
        chosen = {name: value for name, value in given.items() if value is not None}
        question = SweepQuestion(
            device=place,
            settings=asdict(Settings(**{**own, "seed": run.seed, **chosen})),
            batch_sizes=fitting,
            learning_rates=tuple(rates),
            num_workers=tuple(workers) or (int(own["num_workers"]),),
            patience=patience,
            watch="score" if description.has_score else "loss",
            goal=description.goal if description.has_score else "min",
            max_seconds=seconds,
            together=together,
            variables=_variables(run.host, place, together),
            left_out=tuple(size for size in sizes if size > limit),
        )
        session.note(question)
        run_trials(session, question)
        return keep(session, advise(session.records, question))


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    batch_sizes: Sequence[int] = (),
    rates: Sequence[float] = RATES,
    workers: Sequence[int] = (),
    seconds: float | None = None,
    together: int = 1,
    run: Run | None = None,
) -> Foreseen:
    """How many trials would `sweep` run, and how long should they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    entries = earlier_entries(address, run)
    num = (len(batch_sizes) or len(FACTORS)) * len(rates) * max(1, len(workers))
    trial = typical_seconds(entries, Train, START_SECONDS + (TRIAL_SECONDS if seconds is None else seconds))
    most = START_SECONDS + seconds if seconds is not None else 3 * trial
    trials = ForeseenProbe(
        what=f"train a point with early stopping, {together} at once",
        num_probes=(num, num),
        seconds=(num * min(trial, most) / 3 / together, num * most / together),
    )
    known = any(isinstance(entry.request, Train) for entry in entries)
    source = "earlier runs of this job" if known else "a small job on two cores; a heavy one takes longer"
    return Foreseen(
        job=address.text,
        machine=run.host.name,
        seconds=0.0,
        notes=[f"Times are those of {source}. --seconds bounds each trial; what --resume finds is not run again"],
        probes=[
            foreseen_probe("read the job", (1, 1), typical_seconds(entries, Describe, START_SECONDS)),
            trials,
        ],
    )


def _variables(host: Host, device: str, together: int) -> dict[str, str]:
    """Trials beside each other on a CPU share its cores evenly, unless the user gave each a number of threads."""
    if device != "cpu" or together == 1 or "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, host.limits.num_cores // together))}


def _refuse(description: JobDescription) -> None:
    if description.own_step:
        raise UsageError(
            "This job has its own step, so legroom cannot change its rate; give the Job loss and optimizer instead"
        )
    if not description.has_valid:
        raise UsageError("Points are judged on validation data, and this job has none; give the Job valid_data")


def _check_words(
    host: Host,
    device: str,
    batch_sizes: Sequence[int],
    rates: Sequence[float],
    workers: Sequence[int],
    epochs: int | None,
    seconds: float | None,
    patience: int,
    together: int,
    precision: str | None,
) -> None:
    """Refuse what cannot be asked before the job is read."""
    named = {"batch_size": batch_sizes, "learning_rate": rates, "num_workers": workers}
    words = {"batch_size": "--batch-sizes", "learning_rate": "--rates", "num_workers": "--workers"}
    for name, values in named.items():
        for value in values:
            if wanted := lacks(name, value):
                raise UsageError(f"{words[name]} names {value}; it must be {wanted}")
    for number in workers:
        check_workers(number, host.limits.num_cores)
    if not rates:
        raise UsageError("--rates names none; write a range or a list, as 1e-5..1e-1")
    check_counts({"--epochs": epochs, "--patience": patience, "--together": together})
    if together > host.limits.num_cores:
        raise UsageError(f"--together is {together}, and there are {host.limits.num_cores} cores. Name at most that")
    if seconds is not None and not 0.1 <= seconds < math.inf:
        raise UsageError(f"--seconds is {seconds:g}; it must be at least 0.1")
    check_precision(precision)
    check_cuda(host, device)
