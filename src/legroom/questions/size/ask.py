"""`legroom size`: how large a model, how much data?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import ROUND_CEILING, Context
from typing import Literal

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.cards import CONTEXT_BYTES
from legroom.host.target import check_cuda, choose_target
from legroom.job import Settings
from legroom.job_address import AnyJob, address_of
from legroom.questions.base import (
    START_SECONDS,
    Foreseen,
    ForeseenProbe,
    check_budget,
    check_counts,
    check_word,
    foreseen_probe,
    read_target,
    typical_seconds,
)
from legroom.questions.size.advice import advise
from legroom.questions.size.answer import SizeAnswer
from legroom.questions.size.enough import check_places
from legroom.questions.size.planning import planned
from legroom.questions.size.records import (
    CountSizes,
    Dimension,
    RateRule,
    SizeQuestion,
    SizesCounted,
    Solver,
    TrainSize,
)
from legroom.questions.size.search import run_trials
from legroom.requests import Describe, JobDescription
from legroom.session import Run, Session, earlier_entries, keep, open_session

LEAST_FRACTION, MOST_FRACTION, NUM_FRACTIONS = 1 / 64, 1 / 4, 3
"""Of the data: the whole, held out, is four times the most, and the least as far from the most as that allows. Shares
far apart tell a power from a plateau: between 45 and 359 digits the whole is foretold within a factor of 2, between
114 and 359 within 4 to 8."""
LEAST_BATCHES = 1.5
"""On the smallest share: of one batch every update has the same samples, and its loss creeps on without a minimum."""
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
"""As far as the study goes; of those beyond the fourth only what the budget has room for is run."""
NUM_SMALLER = 3
LEAST_SECONDS = 5.0
COUNT_SECONDS = 0.5
"""Of building small models on two cores."""
SOLVERS: Mapping[str, Solver] = {"SGD": "sgd", "Adam": "adam", "AdamW": "adam"}
HOW_TO_RESIZE = (
    'Give the Job resize={{"{0}": lambda {0}: (lambda: Model({0}))}}: from a {0} to a function that makes the model'
)


def size(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    widths: Sequence[int] | None = None,
    depths: Sequence[int] | None = None,
    fractions: Sequence[float] | None = None,
    vary: str = "width",
    rate_rule: str = "fixed",
    compare_optimizers: bool = False,
    target: str | None = None,
    within: float | None = None,
    budget: float = 180.0,
    seeds: int = 3,
    run: Run | None = None,
) -> SizeAnswer:
    """How do updates, loss and time move with model size and data, and which size is done first?

    widths, depths: values for the job's `resize`; the largest is held out of the fit and scores it.
    fractions: shares of the training data; the whole is held out of the fit and scores it.
    target: "loss=1.5", to be reached soonest. within: seconds, for the best loss within them.
    budget: seconds that the trials may take. seeds: runs of each size, where the budget lasts.
    """
    run = run or Run()
    address = address_of(job, options)
    dimension, rule = _dimension(vary), _rule(rate_rule, vary)
    named = _named(dimension, widths, depths)
    _check_numbers(fractions=fractions, budget=budget, within=within, seeds=seeds)
    loss = _wanted(target)
    check_cuda(run.host, device)
    place = choose_target(run.host, device)
    with open_session("size", address, run) as session:
        started, description = session.clock(), session.describe(run.seed)
        _refuse(description)
        values, counted = count_values(session, dimension, named)
        baseline = Settings(**{**description.baseline, "seed": run.seed})
        question = SizeQuestion(
            device=place.device,
            settings=asdict(baseline),
            vary=dimension,
            values=values,
            own_value=counted.own,
            num_parameters=counted.num_parameters,
            fractions=_fractions(fractions, description, baseline.batch_size),
            num_samples=description.num_samples or 0,
            rate_rule=rule,
            num_seeds=seeds,
            budget_seconds=budget,
            target_loss=loss,
            within_seconds=within,
            compares_solvers=compare_optimizers,
            own_solver=SOLVERS.get(description.optimizer_name, "own"),
            memory_bytes=place.budget_bytes or _card_bytes(run.host),
            refused_values=counted.refused,
        )
        check_places(question)
        session.note(question)
        run_trials(session, question, started)
        return keep(session, advise(session.records, question))


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    widths: Sequence[int] | None = None,
    depths: Sequence[int] | None = None,
    fractions: Sequence[float] | None = None,
    vary: str = "width",
    rate_rule: str = "fixed",
    compare_optimizers: bool = False,
    target: str | None = None,
    within: float | None = None,
    budget: float = 180.0,
    seeds: int = 3,
    run: Run | None = None,
) -> Foreseen:
    """Which trials would `size` run, and how long may they take? Runs none, and refuses the words that `size` does."""
    run = run or Run()
    address, dimension, rule = address_of(job, options), _dimension(vary), _rule(rate_rule, vary)
    values = _named(dimension, widths, depths) or _as_many(dimension)
    _check_numbers(fractions=fractions, budget=budget, within=within, seeds=seeds)
    loss = _wanted(target)
    check_cuda(run.host, device)
    question = SizeQuestion(
        device="cpu",
        settings={},
        vary=dimension,
        values=values,
        own_value=None,
        num_parameters=values,
        fractions=_usual_fractions(LEAST_FRACTION) if fractions is None else _without_whole(fractions),
        num_samples=0,
        rate_rule=rule,
        num_seeds=seeds,
        target_loss=loss,
        compares_solvers=compare_optimizers,
    )
    check_places(question)
    entries, trials = earlier_entries(address, run), list(planned(question))
    fitted = sum(not question.is_held_out(each.value, each.fraction) for each in trials if not each.more)
    trial = typical_seconds(entries, TrainSize, START_SECONDS)
    probes = [
        foreseen_probe("read the job in a child process", (1, 1), typical_seconds(entries, Describe, START_SECONDS)),
        foreseen_probe(
            "count the parameters of each size", (2, 2), typical_seconds(entries, CountSizes, COUNT_SECONDS)
        ),
        ForeseenProbe(
            what="train one size on one share of the data until its loss has settled",
            num_probes=(fitted, len(trials)),
            seconds=(min(budget, fitted * trial), budget),
        ),
    ]
    notes = [f"Trials end with the budget of {budget:g} s, the cheapest first; more seeds only where it lasts"]
    return Foreseen(job=address.text, machine=run.host.name, seconds=0.0, notes=notes, probes=probes)


def _as_many(vary: Dimension) -> Sequence[int]:
    """In place of the values that the job will say: its own width and three smaller."""
    return DEPTHS if vary == "depth" else DEPTHS[: 1 + NUM_SMALLER]


def _card_bytes(host: Host) -> int:
    return max(0, host.gpus[0].total_bytes - CONTEXT_BYTES) if host.gpus else 0


def _dimension(vary: str) -> Dimension:
    check_word("dimension", vary, ("width", "depth"))
    return "width" if vary == "width" else "depth"


def _rule(rate_rule: str, vary: str) -> RateRule:
    check_word("rate rule", rate_rule, ("fixed", "mup"))
    if rate_rule == "mup" and vary == "depth":
        raise UsageError("--rate-rule mup scales rates with the width; with --vary depth use --rate-rule fixed")
    return "mup" if rate_rule == "mup" else "fixed"


def _named(vary: Dimension, widths: Sequence[int] | None, depths: Sequence[int] | None) -> Sequence[int] | None:
    """The values that were named for what is varied."""
    named, other = (widths, depths) if vary == "width" else (depths, widths)
    if other is not None:
        wrong: Literal["depth", "width"] = "depth" if vary == "width" else "width"
        raise UsageError(f"--{wrong}s were named, but what is varied is the {vary}. Add --vary {wrong}")
    if named is not None and (not named or any(not isinstance(value, int) or value < 1 for value in named)):
        raise UsageError(f"--{vary}s {_list(named)}: each must be a whole number, at least 1")
    if named is not None and len(set(named)) < len(named):
        raise UsageError(f"--{vary}s {_list(named)} names a value twice. Name each once")
    return named


def _list(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _wanted(target: str | None) -> float | None:
    """The loss that was named."""
    if target is None:
        return None
    name, value = read_target(target)
    if name != "loss" or value <= 0:
        raise UsageError(f"The target {target!r} cannot be used: sizes are judged by loss. Write loss=0.1")
    return value


def _check_numbers(*, fractions: Sequence[float] | None, budget: float, within: float | None, seeds: int) -> None:
    if fractions is not None and (not fractions or any(not 0 < each <= 1 for each in fractions)):
        raise UsageError(
            f"--fractions {_list(fractions)}: each must be above 0 and at most 1, as 0.25 for a quarter of the data"
        )
    check_budget(budget, LEAST_SECONDS)
    if within is not None and not 0 < within < math.inf:
        raise UsageError(f"--within is {within:g} s; it must be above 0")
    check_counts({"--seeds": seeds})


def _refuse(description: JobDescription) -> None:
    """Say what a job lacks that cannot be asked for a size."""
    if description.own_step:
        raise UsageError(
            "This job has its own step, so legroom cannot train it at another size; give the Job loss and optimizer"
        )
    if not description.has_valid:
        raise UsageError("Sizes are judged on validation data, and this job has none; give the Job valid_data")
    if description.num_samples is None:
        raise UsageError("How much data there is decides the law, and nobody knows it here. Give the Job num_samples")


def count_values(session: Session, vary: Dimension, named: Sequence[int] | None) -> tuple[list[int], SizesCounted]:
    """The values to try, and the parameters at each; refused where the job cannot be resized so."""
    session.progress("counting parameters", 0.04)
    seen = session.ask(CountSizes(vary=vary))
    if vary not in seen.names:
        others = f"; it can vary {' and '.join(seen.names)}" if seen.names else ""
        raise UsageError(f"This job does not say how to change its {vary}{others}. {HOW_TO_RESIZE.format(vary)}")
    values = sorted(named if named is not None else _default_values(vary, seen))
    counted = session.ask(CountSizes(vary=vary, values=values, skips=named is None))
    if not counted.num_parameters:
        raise UsageError(f"This job can make a model of no {vary} of {_list(values)}: {counted.why}. Name --{vary}s")
    values = [value for value in values if value not in counted.refused]
    counts = counted.num_parameters
    if len(set(counts)) < len(counts):
        pairs = ", ".join(f"{value:,}: {num:,}" for value, num in zip(values, counts, strict=True))
        raise UsageError(
            f'{vary}s that change nothing: resize["{vary}"] gives as many parameters at different {vary}s ({pairs}). '
            f"Let its model use the {vary} it is given"
        )
    return values, counted


def _default_values(vary: Dimension, seen: SizesCounted) -> list[int]:
    """The job's own width and three smaller; depths from 1 on."""
    own = seen.own
    if vary == "depth":
        return sorted({*DEPTHS, *([own] if own else [])})
    if own is None:
        why = f"; {seen.why}" if seen.why else ""
        raise UsageError(
            f"No width was found that gives a model with as many parameters as the job's own{why}. "
            "Name --widths, as 32,64,128"
        )
    smaller = [own // 2**power for power in range(1, NUM_SMALLER + 1)]
    # At 1 there is none, and a resize that does not use its width gives the job's own model there.
    return sorted({own, *(value for value in smaller if value)}) if own > 1 else [1, 2]


def _fractions(named: Sequence[float] | None, description: JobDescription, batch_size: int) -> list[float]:
    """Shares of the data that make a batch; of those that nobody named, smaller ones are left out."""
    least = batch_size / (description.data_limit or 1)  # of running text a batch takes more words than its size
    if named is not None:
        if min(named) < least:
            raise UsageError(
                f"--fractions names {min(named):g}, which is less than a batch of {batch_size:,}. "
                f"Name at least {_rounded_up(least)}"
            )
        return _without_whole(named)
    return _usual_fractions(max(LEAST_FRACTION, LEAST_BATCHES * least))


def _rounded_up(share: float) -> str:
    """To three digits, so that it can be named.

    >>> _rounded_up(16 / 720), _rounded_up(32 / 10_000)
    ('0.0223', '0.0032')
    """
    return str(Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(share)))


def _without_whole(named: Sequence[float]) -> list[float]:
    """The shares that the fit rests on: the whole is held out of it where there are others."""
    return sorted({*named} - {1.0}) or [1.0]


def _usual_fractions(low: float) -> list[float]:
    """Three shares from there to a quarter, a 64th at least; the whole where a quarter is too little."""
    if low >= MOST_FRACTION:
        return [1.0]
    grown = (MOST_FRACTION / low) ** (1 / (NUM_FRACTIONS - 1))
    return [float(f"{low * grown**place:.4g}") for place in range(NUM_FRACTIONS)]
