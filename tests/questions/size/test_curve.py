"""The curve of one trial: where it is lowest, and when that can be told."""

import itertools
import math
import random

import pytest

from legroom.questions.size.curve import evaluation_steps, smooth


def evaluations(loss, last):
    steps = list(itertools.takewhile(lambda step: step <= last, evaluation_steps(4)))
    return steps, [loss(step) for step in steps]


def bowl(lowest, noise=0.0, seed=0):
    chance = random.Random(seed)
    return lambda step: math.exp(0.3 * math.log(step / lowest) ** 2 + noise * chance.gauss(0, 1))


def test_evaluations_are_a_tenth_apart():
    steps = list(itertools.islice(evaluation_steps(40), 30))
    assert len(steps) == 30
    assert all(1.05 <= after / before <= 1.15 for before, after in itertools.pairwise(steps))


def test_updates_to_within_a_hundredth_of_the_minimum_are_those_planted():
    curve = smooth(*evaluations(bowl(500), 2000))
    assert curve.steps_within() == pytest.approx(500 * math.exp(-math.sqrt(math.log(1.01) / 0.3)), rel=0.03)
    assert curve.least_loss == pytest.approx(1.0, abs=0.01)


def test_a_curve_settles_after_its_minimum_and_not_before():
    ends = {last: smooth(*evaluations(bowl(500), last)).has_settled() for last in (200, 480, 600, 1500, 3000)}
    assert ends == {200: False, 480: False, 600: False, 1500: True, 3000: True}


def test_a_curve_that_still_falls_has_not_settled():
    assert not smooth(*evaluations(lambda step: 1 + 10 / step**0.5, 4000)).has_settled()


def test_a_loss_that_has_not_left_its_beginning_has_not_settled():
    """Before a network learns anything its loss stands still, and may rise by chance."""
    assert not smooth(*evaluations(lambda step: 2.3 + 0.0005 * math.log(step), 400)).has_settled()


def test_a_curve_that_only_rises_is_done_once_it_is_far_above_its_beginning():
    """As of a model that overfits at once: until then, and where it fell before, it may be on its way."""
    rises = {last: smooth(*evaluations(lambda step: 1.6 + step / 500, last)) for last in (10, 20, 100, 4000)}
    assert {last: curve.only_rose() for last, curve in rises.items()} == {10: False, 20: False, 100: True, 4000: True}
    assert not rises[100].only_rose(200)
    assert not any(curve.has_settled() for curve in rises.values())
    assert not smooth(*evaluations(bowl(500), 3000)).only_rose()


def test_a_rest_on_the_way_down_is_no_minimum():
    """As a language model has it that knows how frequent letters are, and not yet what follows."""
    rests = evaluations(lambda step: 3.45 + 1.5 / step - 0.6 * max(0.0, math.log(step / 150)) ** 2, 250)
    for last in range(16, len(rests[0])):
        assert not smooth(rests[0][:last], rests[1][:last]).has_settled()


def test_nothing_settles_before_so_many_updates():
    curve = smooth(*evaluations(bowl(500), 2000))
    assert curve.has_settled(1500)
    assert not curve.has_settled(2500)


def test_noise_moves_the_updates_by_less_than_their_spread_over_seeds():
    truth = smooth(*evaluations(bowl(500), 2000)).steps_within()
    found = [smooth(*evaluations(bowl(500, 0.02, seed), 2000)).steps_within() for seed in range(30)]
    assert math.exp(sum(math.log(each / truth) for each in found) / 30) == pytest.approx(1.0, abs=0.12)


def test_updates_to_a_loss_lie_between_evaluations_and_are_none_below_the_minimum():
    curve = smooth(*evaluations(bowl(500), 2000))
    assert curve.steps_to(2.0) == pytest.approx(500 * math.exp(-math.sqrt(math.log(2.0) / 0.3)), rel=0.03)
    assert curve.steps_to(0.9) is None
    assert curve.loss_by(100) > curve.loss_by(300) > curve.loss_by(1500) == curve.least_loss
    assert curve.loss_by(1) is None


def test_where_standing_still_is_not_enough_a_curve_settles_once_it_has_risen():
    """As where nothing was learned yet: a loss that stands there rests, however long."""
    stands = smooth(*evaluations(lambda step: 3.4 + 3 / step**2 + 0.001 * math.log(step), 4000))
    assert stands.has_settled()
    assert not stands.has_settled(may_stand=False)
    assert smooth(*evaluations(bowl(500), 2000)).has_settled(may_stand=False)
