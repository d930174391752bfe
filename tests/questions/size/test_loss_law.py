"""The law of the loss by model size and data, against planted numbers."""

import math

import numpy as np
import pytest

from legroom.errors import UsageError
from legroom.questions.size.loss_law import fit_loss

MODELS, DATA = (1e4, 4e4, 16e4), (1e3, 2e3, 4e3, 8e3)


def truth(m, d):
    return 1.2 + 30 / m**0.6 + 4 / d**0.3


def noisy(seed):
    rng = np.random.default_rng(seed)
    return fit_loss([(m, d, truth(m, d) * math.exp(0.005 * rng.standard_normal())) for m in MODELS for d in DATA])


def holds(span, value):
    return span[0] <= value <= span[1]


def test_the_loss_at_four_times_both_is_foretold():
    law = noisy(0)
    assert law.loss(64e4, 32e3) == pytest.approx(truth(64e4, 32e3), rel=0.03)
    assert holds(law.loss_range(64e4, 32e3), truth(64e4, 32e3))


def test_floor_and_exponents_and_what_twice_the_data_gives_lie_in_their_ranges_in_at_least_85_of_100_cases():
    num_held = num_told = 0
    ratio = truth(16e4, 16e3) / truth(16e4, 8e3)
    for seed in range(20):
        law = noisy(seed)
        spans = ((law.floor_range, 1.2), (law.alpha_range, 0.6), (law.beta_range, 0.3))
        num_held += all(holds(span, value) for span, value in spans)
        num_told += holds(law.ratio_range((16e4, 8e3), (16e4, 16e3)), ratio)
    assert num_held >= 17
    assert num_told >= 17


def test_the_loss_never_rises_with_model_or_data():
    law = fit_loss([(m, d, 1 + m**-0.2 + d**-0.1) for m in MODELS for d in DATA])
    assert law.loss(1e5, 4e3) <= law.loss(1e4, 4e3)
    assert law.loss(1e5, 8e3) <= law.loss(1e5, 4e3)


def test_fewer_than_three_losses_are_refused():
    with pytest.raises(UsageError, match="losses at 3 points"):
        fit_loss([(1e4, 1e3, 1.0), (1e4, 1e3, 1.1)])
