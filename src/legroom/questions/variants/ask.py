"""`legroom variants`: do bf16, channels-last, a fused optimizer and torch.compile pay on this job?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from legroom.errors import UsageError
from legroom.host.target import check_cuda, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.laws.memory import LARGEST_BATCH
from legroom.questions.base import (
    START_SECONDS,
    Foreseen,
    ForeseenProbe,
    check_budget,
    check_counts,
    check_precision,
    check_word,
    foreseen_probe,
)
from legroom.questions.variants.advice import advise
from legroom.questions.variants.answer import VariantsAnswer
from legroom.questions.variants.records import NUM_SEEDS, VARIANTS, VariantsQuestion
from legroom.questions.variants.search import MOST_STEPS, TURNS_SECONDS, measure_variants
from legroom.requests import JobDescription
from legroom.session import Run, keep, open_session

LEAST_SECONDS = 10.0


def variants(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    only: Sequence[str] = (),
    num_steps: int | None = None,
    budget: float = 120.0,
    precision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    run: Run | None = None,
) -> VariantsAnswer:
    """Do bf16, channels-last, a fused optimizer and torch.compile pay? Steps timed in turns, then losses over seeds.

    only: names among "channels_last", "bf16", "fused", "compile". num_steps: updates of the run they must pay in; the
    job's own length where absent. budget: seconds. settings: others than the job's own to start from, by their names.
    """
    run = run or Run()
    address = address_of(job, options)
    _check_words(batch_size, only, num_steps, budget, precision)
    check_cuda(run.host, device)
    target = choose_target(run.host, device)
    with open_session("variants", address, run) as session:
        description = session.describe(run.seed)
        given = {"batch_size": batch_size, "precision": precision, **(settings or {})}
        question = _question(description, target.device, given, only, num_steps, budget, run.seed)
        return keep(session, advise(session.records, measure_variants(session, question)))


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    budget: float = 120.0,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `variants` run, and how long should they take? Runs none."""
    run, names = run or Run(), only or tuple(VARIANTS)
    plain = len([name for name in names if name != "compile"])
    probes = [
        foreseen_probe("read the job in a child process", (1, 1), START_SECONDS),
        foreseen_probe("steps with and without a variant, in turns", (plain, plain + 1), TURNS_SECONDS + 1.0),
        foreseen_probe(f"a training of {MOST_STEPS} updates", (0, 2 * NUM_SEEDS), 1.0),
    ]
    if "compile" in names:
        probes.append(ForeseenProbe(what="compile the loss and time it", num_probes=(0, 2), seconds=(0.0, budget / 2)))
    notes = [f"Times are those of a small job on two cores; no more is begun after {budget:.0f} s"]
    address = address_of(job, options)
    return Foreseen(job=address.text, machine=run.host.name, seconds=0.0, notes=notes, probes=probes)


def _question(
    description: JobDescription,
    device: str,
    given: Mapping[str, Any],
    only: Sequence[str],
    num_steps: int | None,
    budget: float,
    seed: int,
) -> VariantsQuestion:
    """The settings in question, and the variants that are not part of them already."""
    words = {name: value for name, value in given.items() if value is not None}
    settings = asdict(Settings(**{**description.baseline, "num_devices": 1, "seed": seed, **words}))
    names = tuple(name for name in VARIANTS if not only or name in only)
    return VariantsQuestion(
        device=device,
        settings=settings,
        names=names,
        num_steps=_run_length(description, settings) if num_steps is None else num_steps,
        budget_seconds=budget,
        skipped={name: why for name in names if (why := _already(name, settings))},
    )


def _already(name: str, settings: Mapping[str, Any]) -> str:
    """Why a variant is no change of these settings, as a clause; empty where it is one."""
    if name == "bf16" and settings["precision"] != Settings().precision:
        return f"the run is in {settings['precision']} already"
    return "the run has it already" if settings.get(name) is True else ""


def _run_length(description: JobDescription, settings: Mapping[str, Any]) -> int | None:
    """Updates of a run by these settings; None where nobody knows the length of an epoch."""
    if description.epoch_samples is None:
        return None
    size = int(settings["batch_size"]) * int(settings["accumulation_steps"])
    return int(settings["num_epochs"]) * max(1, description.epoch_samples // size)


def _check_words(
    batch_size: int | None, only: Sequence[str], num_steps: int | None, budget: float, precision: str | None
) -> None:
    """Refuse what cannot be asked before the job is read."""
    if batch_size is not None and not 1 <= batch_size <= LARGEST_BATCH:
        raise UsageError(f"--batch-size is {batch_size:,}; sizes are from 1 to {LARGEST_BATCH:,}")
    for name in only:
        check_word("variant", name, tuple(VARIANTS))
    check_counts({"--steps": num_steps})
    check_budget(budget, LEAST_SECONDS)
    check_precision(precision)
