"""What each question that a plan asks found, in a few words: told at once, and kept beside what it took."""

from collections.abc import Sequence

from legroom.environments import environment_text
from legroom.questions.base import Answer
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.plan.records import OwnTurn, Rehearsal
from legroom.questions.plan.tried import choice_of, took
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.speed.answer import EnvironmentAnswer, SpeedAnswer
from legroom.questions.variants.answer import VariantsAnswer
from legroom.training.records import Trained
from legroom.units import format_seconds


def found_words(answer: Answer) -> str:
    """The gist of an answer."""
    match answer:
        case SpeedAnswer():
            low, high = answer.range
            return f"above batches of {answer.knee_batch_size:,} ({low:,} to {high:,}) a larger one hardly pays"
        case RateAnswer():
            return _rate_words(answer)
        case LoadingAnswer():
            return f"{_workers(answer.num_workers)} at batches of {answer.batch_size:,}"
        case VariantsAnswer():
            return _faster_words(" and ".join(answer.chosen), answer)
        case EnvironmentAnswer():
            return _faster_words(environment_text(answer.variables), answer)
        case MemoryAnswer():
            how = "are estimated to fit" if answer.estimate else "fit" if answer.verified else "ran; no more was proved"
            return f"batches of {answer.max_batch_size:,} {how}"
    return answer.recommendations[0].because if answer.recommendations else "nothing to recommend"


def _rate_words(answer: RateAnswer) -> str:
    target = f"{answer.target['name']} {answer.target['value']:.4g}"
    if not answer.reached:
        best = "" if answer.best_value is None else f"; the best of single runs was {answer.best_value:.4g}"
        there, _ = answer.seeds_there or (0, 0)
        seeds = " with most seeds" if there else ""
        return f"no rate reached {target}{seeds} at batches of {answer.batch_size:,}{best}{_more_words(answer)}"
    return f"{answer.learning_rate:.3g} reaches {target} in {answer.num_steps:,} updates of {answer.batch_size:,}"


def _more_words(answer: RateAnswer) -> str:
    """What the target would take, by the shape of the best curve."""
    if answer.extrapolated_steps is None:
        return ", and its curve does not lead there"
    low, high = answer.extrapolated_steps
    span = f"{low:,.0f} or more" if high is None else f"{low:,.0f} to {high:,.0f}"
    return f", and its curve gets there after {span} updates (extrapolated)"


def _faster_words(what: str, answer: VariantsAnswer | EnvironmentAnswer) -> str:
    told = f"{what}: {answer.speedup:.2f} times as fast" if what else "none pays"
    return f"{told} at batches of {answer.batch_size:,}"


def _workers(num: int) -> str:
    return {0: "no workers", 1: "1 worker"}.get(num, f"{num:,} workers")


def own_words(run: Trained) -> str:
    """What a run by the job's own settings came to."""
    met = "at the target" if run.stopped_because == "target" else "not at the target"
    return f"the job's own settings are {met} after {run.num_steps:,} updates, {format_seconds(run.seconds)}"


def rehearsal_words(runs: Sequence[Rehearsal]) -> str:
    """What the runs of each choice took."""
    tried: dict[tuple[int, int, float, float], list[Rehearsal]] = {}
    for run in runs:
        tried.setdefault(choice_of(run), []).append(run)
    told = [f"updates of {made[0].size:,}{_share(made[0])} to the target in {took(made)}" for made in tried.values()]
    return "; ".join(told) or "no run came to an end"


def _share(run: Rehearsal) -> str:
    rate = "" if run.rate_share == 1 else f" at {run.rate_share:g} times the rate"
    return rate if run.length_share == 1 else f"{rate} with only {run.length:,} updates"


def turn_words(turns: Sequence[OwnTurn]) -> str:
    """How much faster the job's own updates were with what was changed."""
    if not turns:
        return "too short to be timed"
    settings = [f"{name} {value}" for name, value in turns[0].settings.items()]
    what = ", ".join([*settings, *filter(None, [environment_text(turns[0].variables)])])
    times = ", ".join(f"{turn.own_step_seconds / turn.step_seconds:.2f}" for turn in turns)
    return f"with {what} the job's own updates are {times} times as fast"
