"""Refuses a question whose fit has too few places, before trials run and after."""

from collections.abc import Collection, Mapping, Sequence

from legroom.errors import NothingMeasured, UsageError
from legroom.laws.model_size import LEAST_POINTS
from legroom.questions.size.fits import settled_places
from legroom.questions.size.planning import places
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.trials import Trial

THREADS = "OMP_NUM_THREADS"


def check_places(question: SizeQuestion) -> None:
    """Refuse sizes and shares of the data of which too few are left for the fit."""
    inside, _ = places(question)
    if len(inside) < LEAST_POINTS:
        raise UsageError(
            f"The law needs {LEAST_POINTS} pairs of a size and a share of the data, and {len(inside)} of those asked "
            f"for {'is' if len(inside) == 1 else 'are'} left for it{_held(question)}. "
            f"Name more --{question.vary}s or --fractions"
        )


def _held(question: SizeQuestion) -> str:
    """What scores the fit instead of taking part in it."""
    largest = [] if question.held_value is None else [f"{question.vary} {question.held_value:,}"]
    held = [*largest, *(["the whole data"] if question.holds_out_whole else [])]
    return f": {' and '.join(held)} {'are' if len(held) > 1 else 'is'} held out to score it" if held else ""


def check_settled(trials: Sequence[Trial], question: SizeQuestion, variables: Mapping[str, str] | None) -> None:
    """Refuse too few trials that settled, with what helps; trials: those that are not held out."""
    num_places = len(settled_places(trials))
    if num_places >= LEAST_POINTS:
        return
    if not trials:
        raise NothingMeasured(
            f"No trial ran: reading the job took the budget of {question.budget_seconds:g} s. Raise --budget"
        )
    inside, _ = places(question)
    outcomes = {"at chance" if trial.at_chance and not trial.at_least else trial.result.outcome for trial in trials}
    is_cut = "unsettled" in outcomes or len({trial.place for trial in trials}) < len(inside)
    raise NothingMeasured(
        f"Runs settled at their least validation loss at {num_places} of {len(inside)} sizes and shares of the data, "
        f"and the law needs {LEAST_POINTS}{_held(question)}.{_why(outcomes, trials, question, variables)}"
        f"{_more_time(outcomes, question) if is_cut else ''}"
    )


def _why(
    outcomes: Collection[str], trials: Sequence[Trial], question: SizeQuestion, variables: Mapping[str, str] | None
) -> str:
    """What ended trials, and what helps against that."""
    reasons = [trial.result.why for trial in trials if trial.result.why]
    may_wait = question.device == "cpu" and (variables or {}).get(THREADS) != "1"
    busy = f" Where other work shares the cores, {THREADS}=1 makes small steps many times faster."
    helps = {
        "diverged": " Some trials diverged: give the job a lower rate, or clip the gradient's norm.",
        "out_of_memory": f" Some ran out of memory: name smaller --{question.vary}s.",
        "unsettled": busy if may_wait else "",
        "at chance": " Some scored no better than a model that learned nothing: train longer, or at another rate.",
        "only_rose": " Some learned next to nothing on so little data: name larger --fractions.",
        "failed": f" Some trials failed: {reasons[0].rstrip('.')}." if reasons else "",
    }
    return "".join(sentence for outcome, sentence in helps.items() if outcome in outcomes)


def _more_time(outcomes: Collection[str], question: SizeQuestion) -> str:
    """What lets more trials come to their minimum; where they learn too little, less data is no help."""
    data = "" if "only_rose" in outcomes else " or --fractions"
    return f" Raise --budget, or name smaller --{question.vary}s{data}"
