"""What there is to say beside the numbers of a proof."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from legroom.questions.prove.answer import ProveAnswer
from legroom.questions.prove.evidence import Outcome, Pair, disturbed
from legroom.units import format_seconds

COARSE = 0.1
"""Share of the rival's time between two evaluations that is worth a word."""


def notes_of(answer: ProveAnswer, pairs: Sequence[Pair], others: Sequence[str]) -> ProveAnswer:
    """The answer with its notes."""
    notes = [
        *_missed(answer, pairs),
        *_disturbed(pairs),
        *_coarse(pairs),
        *_cadence(answer),
        *_later(answer),
        *_unequal(answer, pairs),
    ]
    notes += _forecast(answer)
    missing = [] if len(pairs) > 1 else ["the spread over seeds: one seed has run; --seeds 3 tells it"]
    if answer.plan_cost_seconds is None:
        missing.append("what making the plan took: its file does not say")
    if answer.predicted_range is None:
        missing.append("whether the plan's forecast holds: there is none of this run")
    return replace(answer, notes=[*others, *notes], not_measured=missing)


def sentence(answer: ProveAnswer) -> str:
    """The verdict, plainly."""
    rival = {"default": "the job's own settings", "sweep": "the best of the sweep"}.get(answer.against, answer.against)
    target, seeds = f"{answer.target['name']} {answer.target['value']:.4g}", _seeds(len(answer.seeds))
    if answer.speedup is None or answer.plan_seconds is None or answer.rival_seconds is None:
        return _nobody(answer, rival, target)
    times = f"{'at least ' if answer.at_least else ''}{answer.speedup:.2f} times as fast"
    within = "" if answer.range is None else f" ({answer.range[0]:.2f} to {answer.range[1]:.2f} at 90 %)"
    took = f"{format_seconds(answer.plan_seconds)} instead of {format_seconds(answer.rival_seconds)}"
    match answer.verdict:
        case "won":
            return f"The plan won: {target} in {took}, {times} as {rival}{within}, over {seeds}."
        case "lost":
            return f"The plan lost: {target} in {took} by {rival}, {times}{within}, over {seeds}."
        case "equal":
            return f"Both are equally fast: {target} in {took} by {rival}, {times}{within}, over {seeds}."
    return f"The runs do not tell who is faster: {target} in {took} by {rival}, {times}{within}, over {seeds}."


def _nobody(answer: ProveAnswer, rival: str, target: str) -> str:
    if answer.num_plan_reached:
        met = f"with {answer.num_plan_reached} of {_seeds(len(answer.seeds))}"
        return f"The plan reached {target} {met}; {rival} never did in a whole run."
    if answer.num_rival_reached:
        return f"The plan lost: it never reached {target}, and {rival} did."
    return f"Neither the plan nor {rival} reached {target}, so there is nothing to compare."


def _seeds(num: int) -> str:
    return "1 seed" if num == 1 else f"{num} seeds"


def _missed(answer: ProveAnswer, pairs: Sequence[Pair]) -> Iterable[str]:
    for name, runs in (("plan", [pair.plan for pair in pairs]), ("rival", [pair.rival for pair in pairs])):
        missed = [run for run in runs if run.met is None]
        if missed:
            yield f"The {name} missed the target with {len(missed)} of {_seeds(len(runs))}: {_how(missed, answer)}"


def _how(missed: Sequence[Outcome], answer: ProveAnswer) -> str:
    if all(run.trained.stopped_because == "diverged" for run in missed):
        return "its loss stopped being a number"
    values = [run.last_value for run in missed if run.last_value is not None]
    came = ", ".join(f"{answer.target['name']} {value:.4g}" for value in values) or "no value"
    return f"{came} at the end; its seconds count, and how much longer it would have taken nobody knows"


def _disturbed(pairs: Sequence[Pair]) -> Iterable[str]:
    """Which runs were slower than others of their arm although they had been made twice."""
    for run in disturbed(pairs):
        pace = f"{run.trained.samples_per_second:,.0f} samples/s"
        yield (
            f"Something else used the machine: with seed {run.seed} the {run.arm} trained at {pace} even when it was "
            "run again, much less than with another seed, so its seconds are too long"
        )


def _coarse(pairs: Sequence[Pair]) -> Iterable[str]:
    """A rival looked at seldom may have been there before anybody looked."""
    doubt = max(pair.rival.doubt_seconds / pair.rival.seconds for pair in pairs)
    if doubt > COARSE:
        yield (
            f"The rival may have met the target up to {doubt:.0%} of its time sooner, between two evaluations; "
            "--evaluate-samples looks more often, in both arms"
        )


def _cadence(answer: ProveAnswer) -> Iterable[str]:
    often = "epoch" if answer.evaluate_samples is None else f"{answer.evaluate_samples:,} samples"
    yield f"Both arms were evaluated after every {often} and at their end; the seconds of evaluating count"


def _later(answer: ProveAnswer) -> Iterable[str]:
    found = answer.equal_time
    if found is None:
        return
    word = {True: "no worse than", False: "worse than", None: "beside"}[found["no_worse"]]
    spread = "" if found["spread"] is None else f"; the rival's seeds lie {found['spread']:.2g} apart"
    yield (
        f"After the rival's own {format_seconds(found['rival_seconds'])} the plan's {answer.target['name']} is "
        f"{found['plan_score']:.4g}, {word} the rival's {found['rival_score']:.4g}{spread}"
    )


def _unequal(answer: ProveAnswer, pairs: Sequence[Pair]) -> Iterable[str]:
    """A longer run that took other seconds than its rival compares nothing."""
    for pair in pairs if answer.equal_time else ():
        if pair.plan_long is not None and not pair.is_equal_time:
            long, rival = (format_seconds(run.trained.seconds) for run in (pair.plan_long, pair.rival))
            yield (
                f"With seed {pair.seed} the plan's longer run took {long} where its rival took {rival}: the "
                "machine changed its pace, so what both have after equal time is not told"
            )


def _forecast(answer: ProveAnswer) -> Iterable[str]:
    if answer.predicted_range is not None and answer.num_predicted_hits is not None:
        low, high = map(format_seconds, answer.predicted_range)
        yield f"The plan foretold {low} to {high}: {answer.num_predicted_hits} of {len(answer.seeds)} runs kept to it"
