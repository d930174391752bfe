"""The laws through trials, and whether these are enough for them."""

import math
from collections.abc import Sequence

from legroom.laws.model_size import LEAST_POINTS, SizeLaw, fit_size
from legroom.questions.size.loss_law import LossLaw, fit_loss
from legroom.questions.size.trials import Place, Trial


def settled_places(trials: Sequence[Trial]) -> set[Place]:
    """Parameters and samples at which a run was seen to come to its minimum."""
    return {(trial.result.num_parameters, trial.result.num_samples) for trial in trials if math.isfinite(trial.counted)}


def fit_steps(trials: Sequence[Trial]) -> SizeLaw:
    """The law of updates through the trials."""
    return fit_size([count for trial in trials if (count := trial.count()) is not None])


def fit_losses(trials: Sequence[Trial]) -> LossLaw | None:
    """The law of the least loss through trials that settled; None where they are too few."""
    losses = [
        (trial.result.num_parameters, trial.result.num_samples, trial.least_loss)
        for trial in trials
        if math.isfinite(trial.counted)
    ]
    return fit_loss(losses) if len(settled_places(trials)) >= LEAST_POINTS else None


def varied(trials: Sequence[Trial]) -> tuple[bool, bool]:
    """Whether two sizes settled, and two amounts of data: of one alone nobody sees what twice as much does."""
    sizes, amounts = ({place[number] for place in settled_places(trials)} for number in (0, 1))
    return len(sizes) > 1, len(amounts) > 1
