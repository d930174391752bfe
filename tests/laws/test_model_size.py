"""The law of updates by model size and data, against planted numbers."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from legroom.errors import UsageError
from legroom.laws.model_size import Count, fit_size
from legroom.questions.size.planted import draw

NUM_CASES = 30
"""A hundred take 6 s: `benchmarks/size_laws.py`."""


@dataclass(frozen=True)
class Truth:
    """A planted law."""

    a: float
    k1: float
    k2: float
    b: float
    noise: float = 0.0

    def steps(self, num_parameters, num_samples):
        return self.a * num_samples**self.k1 / num_parameters**self.k2 + self.b

    def counts(self, models, data, rng=None):
        noise = (
            self.noise * rng.standard_normal((len(models), len(data))) if rng else np.zeros((len(models), len(data)))
        )
        return [
            Count(m, d, self.steps(m, d) * math.exp(noise[i, j]))
            for i, m in enumerate(models)
            for j, d in enumerate(data)
        ]


MODELS, DATA = (1e4, 4e4, 16e4), (1e3, 2e3, 4e3, 8e3)
TRUTH = Truth(a=40.0, k1=0.8, k2=0.5, b=60.0)


def plant(rng):
    """A law about the middle of those places."""
    k1, k2, middle, share, noise = draw(rng, (1.5, 3.5))
    a = (1 - share) * middle * math.exp(k2 * np.log(MODELS).mean() - k1 * np.log(DATA).mean())
    return Truth(a=a, k1=k1, k2=k2, b=share * middle, noise=noise)


def holds(span, value):
    return span[0] <= value <= span[1]


def test_exponents_and_plateau_lie_in_their_ranges_in_at_least_85_of_100_cases():
    num_held = num_inside = num_scales = 0
    for seed in range(NUM_CASES):
        rng = np.random.default_rng(seed)
        truth = plant(rng)
        law = fit_size(truth.counts(MODELS, DATA, rng))
        num_held += holds(law.k1_range, truth.k1) and holds(law.k2_range, truth.k2) and holds(law.b_range, truth.b)
        num_scales += holds(law.a_range, truth.a)
        for place in ((4 * MODELS[-1], DATA[-1]), (MODELS[-1], 4 * DATA[-1])):
            run = truth.steps(*place) * math.exp(truth.noise * rng.standard_normal())
            num_inside += holds(law.steps_range(*place), run)
    assert num_held >= 0.85 * NUM_CASES
    assert num_scales >= 0.85 * NUM_CASES
    assert num_inside >= 0.8 * 2 * NUM_CASES


def test_without_noise_the_planted_numbers_are_found():
    law = fit_size(TRUTH.counts(MODELS, DATA))
    assert (law.k1, law.k2, law.b) == pytest.approx((0.8, 0.5, 60.0), rel=0.1)
    assert law.steps(64e4, 32e3) == pytest.approx(TRUTH.steps(64e4, 32e3), rel=0.03)
    assert law.a * 4e3**law.k1 / 4e4**law.k2 + law.b == pytest.approx(TRUTH.steps(4e4, 4e3), rel=0.05)


def test_the_plateau_is_where_twice_the_parameters_save_a_twentieth():
    law = fit_size(TRUTH.counts(MODELS, DATA))
    place = law.plateau(8e3)
    assert 1 - TRUTH.steps(2 * place, 8e3) / TRUTH.steps(place, 8e3) == pytest.approx(0.05, abs=0.01)


def test_where_there_is_no_plateau_none_is_found():
    law = fit_size(Truth(a=40.0, k1=0.8, k2=0.5, b=0.0).counts(MODELS, DATA))
    assert law.plateau(8e3) == math.inf
    assert law.b_range[0] == 0.0


def test_a_larger_model_never_needs_more_where_every_law_falls():
    law = fit_size(TRUTH.counts(MODELS, DATA))
    steps = [law.steps(size, 8e3) for size in np.geomspace(1e3, 1e7, 20)]
    assert steps == sorted(steps, reverse=True)


def test_a_run_that_ended_early_counts_where_the_law_lies_below_it_and_nowhere_else():
    counts = TRUTH.counts(MODELS, DATA)
    far, place = counts[:-1], counts[-1]
    alone = fit_size(far)
    harmless = fit_size([*far, place._replace(steps=0.5 * place.steps, at_least=True)])
    telling = fit_size([*far, place._replace(steps=2.0 * place.steps, at_least=True)])
    assert harmless.k1 == pytest.approx(alone.k1, abs=0.02)
    assert telling.steps(*place[:2]) > 1.1 * alone.steps(*place[:2])


def test_runs_that_ended_where_the_law_lies_above_them_make_it_no_surer():
    rng = np.random.default_rng(1)
    counts = Truth(a=40.0, k1=0.8, k2=0.5, b=60.0, noise=0.1).counts(MODELS, DATA, rng)
    harmless = [Count(m, d, 1.0, at_least=True) for m in MODELS for d in DATA] * 4
    spans = [fit_size(seen).steps_range(4e4, 4e3, num_runs=None) for seen in (counts, counts + harmless)]
    assert spans[1][1] / spans[1][0] == pytest.approx(spans[0][1] / spans[0][0], rel=0.01)


def test_one_data_size_leaves_its_exponent_open():
    law = fit_size(TRUTH.counts(MODELS, [1e3]))
    low, high = law.k1_range
    assert high - low > 2


def test_more_noise_widens_every_range():
    widths = []
    for noise in (0.03, 0.3):
        rng = np.random.default_rng(1)
        law = fit_size(Truth(a=40.0, k1=0.8, k2=0.5, b=60.0, noise=noise).counts(MODELS, DATA, rng))
        low, high = law.steps_range(64e4, 8e3)
        widths.append((law.k2_range[1] - law.k2_range[0], high / low))
    assert widths[0][0] < widths[1][0]
    assert widths[0][1] < widths[1][1]


def test_fewer_than_three_points_are_refused():
    with pytest.raises(UsageError, match="needs 3 points"):
        fit_size([Count(1e4, 1e3, 10), Count(4e4, 1e3, 5), Count(16e4, 1e3, 5, at_least=True)])
