"""The dynamic programme finds what trying every choice of borders finds, and more buckets never pad more."""

from itertools import combinations

import numpy as np
import pytest

from legroom.training.data.padding import bucket_borders, padded_lengths


@pytest.mark.parametrize("seed", range(20))
def test_no_choice_of_borders_pads_less(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, 40)
    distinct = sorted(set(lengths.tolist()))
    for num_buckets in (1, 2, 3, 4):
        choices = [(*inner, distinct[-1]) for inner in combinations(distinct[:-1], num_buckets - 1)]
        best = min(padded_lengths(lengths, choice).sum() for choice in choices)
        borders = bucket_borders(lengths, num_buckets)
        assert borders == sorted(set(borders))
        assert padded_lengths(lengths, borders).sum() == best


def test_more_buckets_never_pad_more_and_enough_of_them_pad_nothing():
    lengths = np.random.default_rng(0).geometric(0.1, 500)
    places = [padded_lengths(lengths, bucket_borders(lengths, number)).sum() for number in range(1, 100)]
    assert places == sorted(places, reverse=True)
    assert places[-1] == lengths.sum()


def test_every_sample_fits_its_border():
    lengths = np.random.default_rng(1).integers(1, 60, 300)
    assert (padded_lengths(lengths, bucket_borders(lengths, 5)) >= lengths).all()
