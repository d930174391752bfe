"""`legroom rate`: which learning rate, and how many updates to the target?"""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

from legroom.errors import UsageError
from legroom.host.target import check_cuda, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.questions.base import (
    START_SECONDS,
    Foreseen,
    ForeseenProbe,
    check_budget,
    check_counts,
    check_precision,
    check_word,
    foreseen_probe,
    read_target,
    typical_seconds,
)
from legroom.questions.rate import greedy, range_test, transfer
from legroom.questions.rate.advice import advise
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.rate.records import RampRate, RateQuestion, RunTrial, passes_of, update_size
from legroom.questions.rate.rules import KNOWN_RULES
from legroom.questions.rate.search import find_rate
from legroom.questions.rate.target import NUM_RUNS, SHARE, find_target
from legroom.requests import Describe, JobDescription
from legroom.session import Run, Session, earlier_entries, keep, open_session
from legroom.setting_rules import check_workers, lacks

METHODS = ("auto", "greedy", "range", "transfer")
ADAPTIVE = ("adam", "lamb", "adagrad", "rmsprop", "adafactor", "lion", "nadam", "radam")
"""Optimizers whose updates do not grow with the gradient, by what their names hold."""
LEAST_SECONDS = 5.0
RAMP_SECONDS = 2.0
"""Of a ramp of a small job on two cores."""


def rate(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    target: str = "same",
    method: str = "auto",
    rule: str = "measured",
    compare_rules: bool = False,
    from_batch: int | None = None,
    from_rate: float | None = None,
    budget: float = 120.0,
    own_seconds: float | None = None,
    seeds: int = 3,
    fraction: float = 1.0,
    precision: str | None = None,
    num_workers: int | None = None,
    run: Run | None = None,
) -> RateAnswer:
    """Which rate, warm-up and schedule reach the target in the fewest updates, and how many are these?

    batch_size: samples of an update. target: "score=0.97", "loss=1.5", or "same" for what the job's own settings reach.
    budget: seconds that the search may take. own_seconds: what runs by the job's own settings may take beside it, where
    they tell the target; a part of the budget where absent. seeds: runs that the winner is confirmed on, the search's
    own included. fraction: share of the training data that the search uses. rule, compare_rules, from_batch, from_rate:
    of the method transfer; which rule carries the rate, whether all are run side by side, and what is known to be good.
    num_workers: loader processes of the trials, where not the job's own; runs by the job's own settings keep theirs.
    """
    run = run or Run()
    address = address_of(job, options)
    check_word("method", method, METHODS)
    check_word("rule", rule, KNOWN_RULES)
    aim = None if target == "same" else read_target(target, "same")
    _check_numbers(batch_size=batch_size, budget=budget, seeds=seeds, fraction=fraction)
    _check_transfer(method, batch_size, from_batch, from_rate, is_used=compare_rules or rule != "measured")
    check_precision(precision)
    if num_workers is not None:
        _check_workers(num_workers, run.host.limits.num_cores)
    check_cuda(run.host, device)
    place = choose_target(run.host, device).device
    with open_session("rate", address, run) as session:
        started, description = session.clock(), session.describe(run.seed)
        name = aim[0] if aim else "score" if description.has_score else "loss"
        given = {**_at_size(description, batch_size), **({"precision": precision} if precision else {})}
        given |= {} if num_workers is None else {"num_workers": num_workers}
        settings = asdict(Settings(**{**description.baseline, "seed": run.seed, **given}))
        question = RateQuestion(
            device=place,
            settings=settings,
            target_name=name,
            target=aim[1] if aim else math.nan,
            goal=description.goal if name == "score" else "min",
            optimizer=kind_of(description.optimizer_name),
            method=method,
            rule=rule,
            compares=compare_rules,
            budget_seconds=budget,
            own_seconds=own_seconds,
            num_seeds=seeds,
            fraction=fraction,
        )
        _refuse(description, question)
        if method == "transfer":
            question = replace(question, known=_known(description, settings, from_batch, from_rate))
        question = find(session, question, description, started, is_named=aim is not None, sized=batch_size is not None)
        return keep(session, advise(session.records, question))


def find(
    session: Session,
    question: RateQuestion,
    description: JobDescription,
    started: float,
    *,
    is_named: bool,
    sized: bool,
) -> RateQuestion:
    """Measure what the method needs; the question with all that was found out for it."""
    aims = question.method in ("auto", "transfer")
    question = find_target(session, question, description, is_named=is_named or not aims)
    started = started if question.own_seconds is None else session.clock()
    if question.method == "greedy" and not sized:
        question = replace(question, batch_sizes=_sizes(question, description))
    session.note(question)
    if question.method == "range":
        range_test.find(session, question)
    elif question.method == "greedy":
        greedy.find(session, question, started)
    elif question.method == "transfer":
        transfer.find(session, question, started)
    else:
        find_rate(session, question, started)
    return question


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    target: str = "same",
    method: str = "auto",
    budget: float = 120.0,
    seeds: int = 3,
    run: Run | None = None,
) -> Foreseen:
    """Which trials would `rate` run, and how long may they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    check_word("method", method, METHODS)
    entries = earlier_entries(address, run)
    ramp = typical_seconds(entries, RampRate, RAMP_SECONDS)
    probes = [
        foreseen_probe("read the job in a child process", (1, 1), typical_seconds(entries, Describe, START_SECONDS))
    ]
    if method == "range":
        probes.append(foreseen_probe("a ramp of the rate", (seeds, seeds), ramp))
    else:
        num_own = 0 if method == "greedy" or target != "same" else NUM_RUNS
        probes += [foreseen_probe("a ramp of the rate", (1, 2), ramp)]
        probes += [_within("a run by the job's own settings", (1, num_own), SHARE * budget)] if num_own else []
        what = {
            "auto": "trunks and their cooldowns, batch branches, other seeds",
            "greedy": "epochs at several batch sizes, runs at decades of rates and multiples of the best",
            "transfer": "trunks and branches at the known batch size, and rules at the new one where asked",
        }[method]
        probes.append(_within(what, (6, 80), budget))
    known = any(isinstance(entry.request, RampRate | RunTrial) for entry in entries)
    source = "earlier records of this job" if known else "a small job on two cores"
    notes = [f"Times of ramps are those of {source}; all else ends with the budget of {budget:g} s"]
    return Foreseen(job=address.text, machine=run.host.name, seconds=0.0, notes=notes, probes=probes)


def _within(what: str, num_probes: tuple[int, int], most: float) -> ForeseenProbe:
    return ForeseenProbe(what=what, num_probes=num_probes, seconds=(0.2 * most, most))


def kind_of(optimizer_name: str) -> Literal["sgd", "adam"]:
    """Whether the rate moves with the batch as SGD's or as Adam's does.

    >>> kind_of("AdamW"), kind_of("SGD")
    ('adam', 'sgd')
    """
    return "adam" if any(word in optimizer_name.lower() for word in ADAPTIVE) else "sgd"


def _at_size(description: JobDescription, size: int | None) -> dict[str, Any]:
    """Batch size and passes of an update of that many samples, and a warm-up over as many samples as the job's own.

    A job that accumulates keeps its passes small.
    """
    if size is None:
        return {}
    own = description.baseline
    batch_size, passes = passes_of(size, int(own["batch_size"]), whole=int(own["accumulation_steps"]) == 1)
    warmup = round(int(own["warmup_steps"]) * update_size(own) / size)
    return {"batch_size": batch_size, "accumulation_steps": passes, "warmup_steps": warmup}


def _known(
    description: JobDescription, settings: dict[str, Any], from_batch: int | None, from_rate: float | None
) -> dict[str, Any]:
    """Settings whose rate is good: those named, else the job's own batch and rate."""
    there = _at_size(description, from_batch or update_size(description.baseline))
    return {**settings, **there, "learning_rate": from_rate or settings["learning_rate"]}


def _sizes(question: RateQuestion, description: JobDescription) -> tuple[int, ...]:
    """Batch sizes that `greedy` chooses among: the job's own and its doubles, as far as the data has them."""
    own, limit = int(question.settings["batch_size"]), description.data_limit
    sizes = [own * 2**power for power in range(greedy.NUM_SIZES)]
    return tuple(size for size in sizes if limit is None or size <= limit * question.fraction)


def _check_numbers(*, batch_size: int | None, budget: float, seeds: int, fraction: float) -> None:
    check_counts({"--batch-size": batch_size, "--seeds": seeds})
    check_budget(budget, LEAST_SECONDS)
    if not 0 < fraction <= 1:
        raise UsageError(
            f"--fraction is {fraction:g}; it must be above 0 and at most 1, as 0.1 for a tenth of the data"
        )


def _check_workers(num_workers: int, num_cores: int) -> None:
    if wanted := lacks("num_workers", num_workers):
        raise UsageError(f"--workers is {num_workers}; it must be {wanted}")
    check_workers(num_workers, num_cores)


def _check_transfer(
    method: str, batch_size: int | None, from_batch: int | None, from_rate: float | None, *, is_used: bool
) -> None:
    """Refuse words of transfer without it, and transfer without a place to go."""
    if method != "transfer":
        if is_used or from_batch is not None or from_rate is not None:
            raise UsageError("--rule, --compare-rules, --from-batch and --from-rate belong to --method transfer")
        return
    if batch_size is None:
        raise UsageError("--method transfer carries the rate to another batch size. Name it with --batch-size")
    check_counts({"--from-batch": from_batch})
    if from_rate is not None and not 0 < from_rate < math.inf:
        raise UsageError(f"--from-rate is {from_rate:g}; it must be a number above 0")


def _refuse(description: JobDescription, question: RateQuestion) -> None:
    """Say what a job lacks that cannot be asked for a rate."""
    if description.own_step:
        raise UsageError(
            "This job has its own step, so legroom cannot change its rate; give the Job loss and optimizer instead"
        )
    if not description.has_valid and question.method != "range":
        raise UsageError("The rate is judged on validation data, and this job has none; give the Job valid_data")
    if question.target_name == "score" and not description.has_score:
        raise UsageError("This job has no score; name a loss, as in --target loss=0.1, or give the Job a score")
    limit = description.data_limit
    size, part = int(question.settings["batch_size"]), question.fraction
    if limit is not None and size > limit * part:
        of = "" if part == 1 else f" in {part:g} of the data"
        raise UsageError(
            f"A batch of {size:,} is more than the {int(limit * part):,} samples there are{of}. Name at most that"
        )
