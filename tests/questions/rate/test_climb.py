"""A ramp climbs to its end in the time it has."""

import pytest

from legroom.questions.rate.climb import LEAST_STEPS, Climb
from legroom.questions.rate.records import RampRate
from legroom.testing.clock import FakeClock


def climb(seconds, max_seconds, first=0.0):
    """The rates of a ramp whose updates take so long, the first longer; and what it took."""
    clock = FakeClock()
    request = RampRate(device="cpu", settings={}, least_rate=1e-6, most_rate=10.0, max_seconds=max_seconds)
    found = Climb(request, clock)
    ends, losses = found.until_there(lambda losses: False), []
    while len(losses) < request.num_steps and not (losses and ends(losses)):
        found.at(len(losses))
        clock.advance(seconds + (0.0 if losses else first))
        losses.append(1.0)
    return found.rates, clock()


@pytest.mark.parametrize("max_seconds", [None, 60.0])
def test_where_there_is_time_a_hundred_equal_steps_lead_from_the_least_rate_to_the_most(max_seconds):
    rates, _ = climb(0.01, max_seconds)
    assert len(rates) == 100
    assert rates[-1] == pytest.approx(10.0)
    assert rates[50] / rates[49] == pytest.approx(rates[1] / rates[0])


@pytest.mark.parametrize("first", [0.0, 2.0])
def test_slow_updates_make_it_steeper_and_it_still_gets_to_the_end_in_time(first):
    rates, seconds = climb(0.2, 10.0, first)
    assert LEAST_STEPS < len(rates) < 60
    assert rates[-1] == pytest.approx(10.0)
    assert seconds <= 10.0 + 0.4


def test_updates_that_are_slower_than_any_time_still_make_the_fewest_that_tell_something():
    rates, _ = climb(5.0, 10.0)
    assert len(rates) == LEAST_STEPS
    assert rates[-1] == pytest.approx(10.0)
