"""The laws through trials, and why there is none where they are too few."""

import math
from collections.abc import Sequence

from legroom.errors import NothingMeasured
from legroom.laws.model_size import LEAST_POINTS, SizeLaw, fit_size
from legroom.questions.size.loss_law import LossLaw, fit_loss
from legroom.questions.size.trials import Trial


def fit_steps(trials: Sequence[Trial]) -> SizeLaw:
    """The law of updates through the trials."""
    counts = [count for trial in trials if (count := trial.count()) is not None]
    places = {count[:2] for count in counts if not count.at_least}
    if len(places) < LEAST_POINTS:
        raise NothingMeasured(_too_few(len(places), trials))
    return fit_size(counts)


def fit_losses(trials: Sequence[Trial]) -> LossLaw | None:
    """The law of the least loss through trials that settled; None where they are too few."""
    losses = [
        (trial.result.num_parameters, trial.result.num_samples, trial.least_loss)
        for trial in trials
        if math.isfinite(trial.counted)
    ]
    return fit_loss(losses) if len({each[:2] for each in losses}) >= LEAST_POINTS else None


def varied(trials: Sequence[Trial]) -> tuple[bool, bool]:
    """Whether two sizes settled, and two amounts of data: of one alone nobody sees what twice as much does."""
    settled = [trial.result for trial in trials if trial.counted < math.inf]
    sizes, amounts = {each.num_parameters for each in settled}, {each.num_samples for each in settled}
    return len(sizes) > 1, len(amounts) > 1


def _too_few(num_places: int, trials: Sequence[Trial]) -> str:
    seen = f"{num_places} of {len({trial.place for trial in trials})} sizes and shares of data"
    return (
        f"Runs settled at their least validation loss at {seen}, and the law needs {LEAST_POINTS}."
        f"{_why(trials)} Raise --budget, or name smaller --widths and --fractions"
    )


def _why(trials: Sequence[Trial]) -> str:
    """What ended trials, and what helps against that."""
    outcomes = {"at chance" if trial.at_chance and not trial.at_least else trial.result.outcome for trial in trials}
    reasons = [trial.result.why for trial in trials if trial.result.why]
    helps = {
        "diverged": " Some trials diverged: give the job a lower rate, or clip the gradient's norm.",
        "unsettled": " Where other work shares the cores, OMP_NUM_THREADS=1 makes small steps many times faster.",
        "at chance": " Some scored no better than a model that learned nothing: train longer, or at another rate.",
        "only_rose": " Some learned next to nothing on so little data: name larger --fractions.",
        "failed": f" Some trials failed: {reasons[0].rstrip('.')}." if reasons else "",
    }
    return "".join(sentence for outcome, sentence in helps.items() if outcome in outcomes)
