"""`legroom devices`: what do 2, 8, 1024 devices give, and what goes over the wire?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from legroom.host import Host
from legroom.host.target import check_cuda, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.questions.base import (
    START_SECONDS,
    Foreseen,
    foreseen_probe,
    typical_seconds,
)
from legroom.questions.devices.advice import advise
from legroom.questions.devices.answer import DevicesAnswer, TableAnswer
from legroom.questions.devices.checks import MOST, check_words, refuse_beside_table, refuse_unshared
from legroom.questions.devices.evidence import numbers_to
from legroom.questions.devices.known import find_known
from legroom.questions.devices.links import read_link
from legroom.questions.devices.records import DevicesQuestion, Scaling, TimeBackward, TimeRanks, TimeWrapped
from legroom.questions.devices.search import fit, local_peak, measure, sizes_for
from legroom.questions.devices.table_findings import answer_table
from legroom.requests import JobDescription
from legroom.session import Run, earlier_entries, keep, open_session
from legroom.training.several import PATIENCE

TABLE_RUNS_NOTHING = "Published times are read and recomputed; nothing is run"
BACKWARD_SECONDS, RANKS_SECONDS, WRAPPED_SECONDS = 3.0, 30.0, 10.0
"""Of a batch on one device, of some together, and of one with DistributedDataParallel: a small job on two cores."""


def devices(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    most: int | None = None,
    measured: int | None = None,
    scaling: Scaling | None = None,
    link: str | None = None,
    rule: str = "legroom",
    speeds: Sequence[float] = (),
    price: float | None = None,
    precision: str | None = None,
    from_table: Path | None = None,
    delay: float = 0.0,
    run: Run | None = None,
) -> DevicesAnswer | TableAnswer:
    """What do more devices give, and how many should be taken?

    batch_size: per device in weak scaling, of all in strong scaling. most: devices one may take. measured: devices to
    run together. link: a name or "25Gb/s,20us", for a forecast; else the one here is measured. speeds: of unequal
    devices. price: of one device for an hour. from_table: a file of published times, in place of a job. delay: seconds
    that each message of gradients is held back where devices are run together, to play a slower link.
    """
    run = run or Run()
    words: dict[str, Any] = {"batch_size": batch_size, "most": most, "measured": measured, "link": link, "rule": rule}
    words |= {"speeds": speeds, "price": price, "precision": precision}
    if from_table is not None:
        refuse_beside_table(job=job, options=options, device=device, scaling=scaling, out=run.out, **words)
        return answer_table(from_table, machine=run.host.name)
    address = address_of(job, options)
    place, num_here = _place(run.host, device, delay=delay, **words)
    scalings: list[Scaling] = [scaling] if scaling else ["weak"] if rule == "local-peak" else ["strong", "weak"]
    with open_session("devices", address, run) as session:
        description = session.describe(run.seed)
        settings = _settings(description, run.seed, batch_size=batch_size, precision=precision)
        question = DevicesQuestion(
            device=place,
            settings=settings,
            batch_size=settings["batch_size"],
            batch_sizes=sizes_for(settings["batch_size"], strong="strong" in scalings, least=2),
            scalings=scalings,
            num_here=num_here,
            num_measured=num_most_measured(measured, link, num_here),
            num_most=most or (MOST if link else num_here),
            num_threads=1,
            num_cores=run.host.limits.num_cores,
            link_name=link,
            rule=rule,
            speeds=list(speeds),
            price=price,
            delay_seconds=delay,
            wait_seconds=PATIENCE * run.timeout,
            num_samples=description.num_samples,
            carries_state=description.carries_state,
            own_batch_size=description.baseline["batch_size"],
            **{"memory": _budget(run.host, place), **find_known(session.logbook, place, settings["precision"])},
        )
        refuse_unshared(description, question)
        question = fit(session, question, description)
        question = local_peak(session, question) if rule == "local-peak" else question
        session.note(question)
        question = measure(session, question)
        session.note(question)
        return keep(session, advise(session.records, question))


def _place(host: Host, device: str, *, link: str | None, **words: Any) -> tuple[str, int]:
    """The device and how many of it are here; words that ask for what cannot be are refused."""
    check_cuda(host, device)
    place = choose_target(host, device).device
    num_here = num_devices_here(host, place)
    check_words(num_here=num_here, **words)
    check_link(link)
    return place, num_here


def _settings(
    description: JobDescription, seed: int, *, batch_size: int | None, precision: str | None
) -> dict[str, Any]:
    """The job's own with what was named."""
    given = {"batch_size": batch_size, "precision": precision}
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = asdict(Settings(**{**description.baseline, "seed": seed, **chosen}))
    return settings


def _budget(host: Host, device: str) -> dict[str, float]:
    """What a GPU has, for splits to be held against; an answer of `legroom memory` knows better."""
    return {"budget_bytes": float(host.gpus[0].total_bytes)} if device == "cuda" else {}


def check_link(link: str | None) -> None:
    """Refuse a link that there is not."""
    if link is not None:
        read_link(link)


def num_most_measured(measured: int | None, link: str | None, num_here: int) -> int:
    """How many are run together: devices behind another link are elsewhere, and no part of what those here take."""
    return measured or (1 if link else num_here)


def num_devices_here(host: Host, device: str) -> int:
    """GPUs of this machine, or its cores."""
    return len(host.gpus) if device == "cuda" else host.limits.num_cores


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    most: int | None = None,
    measured: int | None = None,
    scaling: Scaling | None = None,
    link: str | None = None,
    rule: str = "legroom",
    speeds: Sequence[float] = (),
    price: float | None = None,
    precision: str | None = None,
    from_table: Path | None = None,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `devices` run, and how long should they take? Runs none, and refuses what it refuses."""
    run = run or Run()
    words: dict[str, Any] = {"batch_size": batch_size, "most": most, "measured": measured, "link": link, "rule": rule}
    words |= {"speeds": speeds, "price": price, "precision": precision}
    if from_table is not None:
        refuse_beside_table(job=job, options=options, device=device, scaling=scaling, out=run.out, **words)
        told = answer_table(from_table, machine=run.host.name)
        return Foreseen(job=told.job, machine=told.machine, seconds=0.0, notes=[TABLE_RUNS_NOTHING], probes=[])
    address = address_of(job, options)
    _, num_here = _place(run.host, device, **words)
    entries = earlier_entries(address, run)
    num_together = len(numbers_to(num_most_measured(measured, link, num_here)))
    backward = typical_seconds(entries, TimeBackward, BACKWARD_SECONDS)
    ranks = typical_seconds(entries, TimeRanks, RANKS_SECONDS)
    num_wrapped, wrapped = (
        int(num_together > 0 or link is not None),
        typical_seconds(entries, TimeWrapped, WRAPPED_SECONDS),
    )
    probes = [
        foreseen_probe("read the job in a child process", (1, 1), START_SECONDS),
        foreseen_probe("steps of one device at one batch size", (1, 6), backward),
        foreseen_probe("2, 4, 8 ... devices together", (num_together, num_together), ranks),
        foreseen_probe("one process with DistributedDataParallel", (num_wrapped, num_wrapped), wrapped),
    ]
    notes = ["Times are those of a small job on two cores, or of earlier records of this job"]
    return Foreseen(job=address.text, machine=run.host.name, seconds=0.0, notes=notes, probes=probes)
