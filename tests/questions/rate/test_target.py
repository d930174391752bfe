"""What the beginning of a run tells of its end."""

import pytest

from legroom.questions.rate.records import RateQuestion
from legroom.questions.rate.target import _forecast

QUESTION = RateQuestion(
    device="cpu", settings={}, target_name="score", target=0.0, goal="max", optimizer="sgd", budget_seconds=25.0
)
RUNS = {
    0.003: ([0.270, 0.353, 0.398, 0.414, 0.446, 0.482, 0.504, 0.547, 0.576, 0.596], 0.897),
    0.01: ([0.365, 0.455, 0.510, 0.547, 0.640, 0.712, 0.741, 0.776, 0.783, 0.814], 0.933),
    0.05: ([0.498, 0.703, 0.811, 0.853, 0.877, 0.888, 0.892, 0.902, 0.887, 0.901], 0.912),
}
"""Scores of a small network at three rates, every 12 of its 625 updates, and the middle of its last nine."""


@pytest.mark.parametrize("rate", RUNS)
@pytest.mark.parametrize("num_seen", [4, 5, 7, 10])
def test_the_end_of_a_run_lies_in_the_range_of_its_forecast(rate, num_seen):
    scores, end = RUNS[rate]
    points = [(12 * (1 + place), score) for place, score in enumerate(scores[:num_seen])]
    found = _forecast(points, QUESTION, 625)
    low, high = found.target_range
    assert found.target_from == "forecast"
    assert low <= end <= high <= 1
    assert low <= found.target


def test_a_run_that_was_seen_to_its_end_has_the_range_of_its_curves():
    points = [(12 * (1 + place), score) for place, score in enumerate(RUNS[0.05][0])]
    low, high = _forecast(points, QUESTION, 120).target_range
    assert high - low < 0.03


@pytest.mark.parametrize("num_seen", [1, 3])
def test_fewer_than_four_looks_are_no_ground_for_a_forecast(num_seen):
    points = [(12 * (1 + place), score) for place, score in enumerate(RUNS[0.01][0][:num_seen])]
    found = _forecast(points, QUESTION, 625)
    assert found.target_from == "begun"
    assert found.target == points[-1][1]
