"""`legroom rate`: which learning rate, and how many updates to the target?"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from legroom.errors import UsageError
from legroom.host.target import check_cuda, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.questions.base import check_word, read_target
from legroom.questions.rate.advice import advise
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.records import RateQuestion
from legroom.questions.rate.search import find_rate
from legroom.questions.rate.target import find_target
from legroom.requests import JobDescription
from legroom.session import Run, keep, open_session
from legroom.setting_rules import PRECISIONS

METHODS = ("auto",)
ADAPTIVE = ("adam", "lamb", "adagrad", "rmsprop", "adafactor", "lion", "nadam", "radam")
"""Optimizers whose updates do not grow with the gradient, by what their names hold."""
LEAST_SECONDS = 5.0


def rate(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    target: str = "same",
    method: str = "auto",
    budget: float = 120.0,
    seeds: int = 3,
    fraction: float = 1.0,
    precision: str | None = None,
    run: Run | None = None,
) -> RateAnswer:
    """Which rate, warm-up and schedule reach the target in the fewest updates, and how many are these?

    target: "score=0.97", "loss=1.5", or "same" for what the job's own settings reach.
    budget: seconds that the search may take. seeds: runs that the winner is confirmed on, the search's own included.
    fraction: share of the training data that the search uses.
    """
    run = run or Run()
    address = address_of(job, options)
    check_word("method", method, METHODS)
    aim = None if target == "same" else read_target(target, "same")
    _check_numbers(batch_size=batch_size, budget=budget, seeds=seeds, fraction=fraction)
    if precision is not None:
        check_word("precision", precision, PRECISIONS)
    check_cuda(run.host, device)
    place = choose_target(run.host, device).device
    with open_session("rate", address, run) as session:
        started, description = session.clock(), session.describe(run.seed)
        name = aim[0] if aim else "score" if description.has_score else "loss"
        _refuse(description, batch_size, name)
        given = {"batch_size": batch_size, "precision": precision}
        chosen = {name: value for name, value in given.items() if value is not None}
        settings = asdict(Settings(**{**description.baseline, "seed": run.seed, **chosen}))
        question = RateQuestion(
            device=place,
            settings=settings,
            target_name=name,
            target=aim[1] if aim else math.nan,
            goal=description.goal if name == "score" else "min",
            optimizer=kind_of(description.optimizer_name),
            method=method,
            budget_seconds=budget,
            num_seeds=seeds,
            fraction=fraction,
        )
        question = find_target(session, question, description, is_named=aim is not None)
        session.note(question)
        find_rate(session, question, started)
        return keep(session, advise(session.records, question))


def kind_of(optimizer_name: str) -> Literal["sgd", "adam"]:
    """Whether the rate moves with the batch as SGD's or as Adam's does.

    >>> kind_of("AdamW"), kind_of("SGD")
    ('adam', 'sgd')
    """
    return "adam" if any(word in optimizer_name.lower() for word in ADAPTIVE) else "sgd"


def _check_numbers(*, batch_size: int | None, budget: float, seeds: int, fraction: float) -> None:
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"--batch-size is {batch_size}; it must be at least 1")
    if not LEAST_SECONDS <= budget < math.inf:
        raise UsageError(f"--budget is {budget:g} s; it must be at least {LEAST_SECONDS:g} s")
    if seeds < 1:
        raise UsageError(f"--seeds is {seeds}; it must be at least 1")
    if not 0 < fraction <= 1:
        raise UsageError(
            f"--fraction is {fraction:g}; it must be above 0 and at most 1, as 0.1 for a tenth of the data"
        )


def _refuse(description: JobDescription, batch_size: int | None, target_name: str) -> None:
    """Say what a job lacks that cannot be asked for a rate."""
    if description.own_step:
        raise UsageError(
            "This job has its own step, so legroom cannot change its rate; give the Job loss and optimizer instead"
        )
    if not description.has_valid:
        raise UsageError("The rate is judged on validation data, and this job has none; give the Job valid_data")
    if target_name == "score" and not description.has_score:
        raise UsageError("This job has no score; name a loss, as in --target loss=0.1, or give the Job a score")
    if (passes := int(description.baseline["accumulation_steps"])) > 1:
        raise UsageError(
            f"This job joins {passes} passes into an update, which legroom rate does not do yet; "
            "let its settings have accumulation_steps=1"
        )
    size = batch_size or int(description.baseline["batch_size"])
    limit = description.widest_batch or description.num_samples
    if limit is not None and size > limit:
        raise UsageError(f"A batch of {size:,} is more than the {limit:,} samples there are. Name at most that")
