"""How trunks are compared: from the model before any update on, and with the fastest of the others."""

import math

import pytest

from legroom.questions.rate.evidence import Point, Trunk
from legroom.questions.rate.ranking import behind, bottom, leader, survivors
from legroom.questions.rate.search import widen
from legroom.questions.rate.width import sensitivity

START = 2.0


def point(steps, loss, score=None):
    value = loss if score is None else -score
    return Point(to_step=steps, num_steps=steps, num_samples=steps, value=value, loss=loss, score=score)


def trunk(rate, *points, start=START, diverged_at=None):
    """One with runs of so many updates and their losses, and scores where told."""
    begun = None if start is None else point(0, start)
    found = [point(*each) for each in points]
    return Trunk(learning_rate=rate, batch_size=1, seed=0, points=found, start=begun, diverged_at=diverged_at)


QUICK = trunk(0.1, (30, 1.0), (45, 0.5), (67, 0.25))


def test_what_the_best_had_before_its_first_look_lies_between_that_and_the_start():
    slow = trunk(0.01, (30, 1.8))
    assert behind(slow, QUICK, [slow, QUICK]) == pytest.approx(30 / (0.2 * 30))


def test_of_a_rate_that_learned_nothing_or_that_nobody_knows_no_ratio_is_told():
    stuck, worse = trunk(0.01, (30, START), (45, START)), trunk(1.0, (30, 3.0), (67, 2.5))
    blind = [trunk(rate, *points, start=None) for rate, points in ((0.1, [(30, 0.5)]), (0.3, [(30, 0.9), (45, 0.8)]))]
    assert behind(stuck, QUICK, [stuck, QUICK]) == behind(worse, QUICK, [worse, QUICK]) == math.inf
    assert behind(blind[1], blind[0], blind) == math.inf
    assert sensitivity([stuck, QUICK, worse], QUICK) == {}


def test_a_rate_dropped_early_bends_the_parabola_upwards():
    dropped, other = trunk(0.4, (30, 1.8)), trunk(0.025, (30, 1.6), (45, 1.3), (67, 1.0))
    low = bottom([other, QUICK, dropped], QUICK)
    assert 0.025 < low < 0.2
    assert set(sensitivity([other, QUICK, dropped], QUICK)) == {"half", "twice"}


def test_a_trunk_that_was_first_looked_at_late_is_compared_by_others_that_were_looked_at_before():
    late, slow = trunk(0.2, (67, 0.2)), trunk(0.01, (67, 1.0))
    assert behind(slow, late, [QUICK, late, slow]) == pytest.approx(67 / 30)


def test_a_rate_no_better_than_before_its_first_update_ends_once_another_is():
    stuck = trunk(0.01, (30, 2.1))
    assert survivors([stuck, QUICK], [0.01, 0.1], 30) == [0.1]
    still = [trunk(0.01, (30, 2.1)), trunk(0.1, (30, 2.05))]
    assert survivors(still, [0.01, 0.1], 30) == [0.01, 0.1]


def test_a_rate_that_only_harms_the_model_ends_once_another_does_not_whatever_its_score():
    lucky, quick = trunk(3.0, (30, 2.1, 0.17)), trunk(0.3, (30, 1.5, 0.18))
    assert survivors([quick, lucky], [0.3, 3.0], 30) == [0.3]


def test_a_rate_that_collapsed_leads_no_more_and_whoever_it_had_left_behind_goes_on():
    """As seen of a CNN on digits: it was ahead of all after 46 updates, and back at chance after 101."""
    collapsed = trunk(0.26, (30, 0.27, 0.92), (46, 0.15, 0.95), (67, 0.69, 0.77), (101, 2.3, 0.08), start=2.3)
    slow = trunk(0.09, (30, 0.6, 0.85), (46, 0.39, 0.88), (67, 0.18, 0.94), start=2.3)
    for each in (collapsed, slow):
        each.start = point(0, 2.3, 0.08)
    assert leader([slow, collapsed], 84) is slow
    assert survivors([slow, collapsed], [0.26], 84) == [0.09]
    sure = trunk(0.2, (30, 0.1, 0.97), (46, 1.5, 0.98), start=2.3)
    sure.start = point(0, 2.3, 0.08)
    assert survivors([sure], [0.2], 46) == [0.2], "sure of what it gets wrong, its score still grows"


def test_a_trunk_is_held_against_the_fastest_at_its_value_not_only_the_one_ahead_now():
    ahead = trunk(0.1, (30, 1.9), (45, 1.0), (67, 0.1))
    early = trunk(0.3, (30, 0.9), (45, 0.8), (67, 0.7))
    between = trunk(0.2, (30, 1.8), (45, 0.95), (67, 0.9))
    assert survivors([ahead, early], [0.1, 0.3], 67) == [0.1, 0.3]
    assert survivors([ahead, between, early], [0.1, 0.2, 0.3], 67) == [0.1, 0.3]


def test_one_validation_sample_more_does_not_lead_where_the_loss_is_higher():
    lucky, quick = trunk(0.03, (30, 0.9, 0.70), (45, 0.6, 0.80)), trunk(0.1, (30, 0.5, 0.69), (45, 0.3, 0.79))
    assert leader([lucky, quick], 45) is quick
    risen = trunk(0.3, (30, 0.2, 0.78), (45, 0.4, 0.81))
    assert leader([lucky, quick, risen], 45) is risen, "its loss says nothing any more"


def test_no_rate_is_tried_at_which_a_ramp_blew_up():
    assert widen([QUICK], [0.1], 67, blown=0.3) == [0.1, 0.1 / 3, pytest.approx(0.3 / math.sqrt(3))]
    assert widen([QUICK], [0.1], 67, blown=0.2) == [0.1, 0.1 / 3]
    assert widen([QUICK], [0.1], 67) == [0.1, 0.1 / 3, pytest.approx(0.3)]


def test_a_lead_before_the_first_look_ends_no_other():
    """As seen of an LSTM on digits: the rate that was ahead after 46 updates never got there."""
    slow, quick = trunk(0.3, (30, 1.83), (46, 1.5)), trunk(0.9, (46, 1.0))
    assert survivors([slow, quick], [0.3, 0.9], 46) == [0.3, 0.9]
