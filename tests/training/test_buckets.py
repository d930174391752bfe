"""Bucketed batches hold every sample once, pad little, and are drawn again alike from the same chance."""

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset, default_collate

from legroom.job import Settings
from legroom.training.data.buckets import BucketBatches, bucket_loader
from legroom.training.data.padding import bucket_borders, padded_lengths

LENGTHS = np.random.default_rng(0).integers(1, 40, 500)
BORDERS = bucket_borders(LENGTHS, 4)
PADDED = padded_lengths(LENGTHS, BORDERS)


@pytest.mark.parametrize("order", ["shuffled", "short-first", "long-first"])
@pytest.mark.parametrize("by_places", [False, True])
def test_every_sample_comes_once_and_a_batch_has_one_border(order, by_places):
    batches = BucketBatches(LENGTHS, BORDERS, 16, by_places=by_places, order=order)
    drawn = list(batches)
    assert len(drawn) == len(batches)
    assert sorted(index for batch in drawn for index in batch) == list(range(500))
    assert all(len(set(PADDED[batch])) == 1 for batch in drawn)


def test_batches_by_places_keep_to_the_budget_and_to_the_mean_size():
    drawn = list(BucketBatches(LENGTHS, BORDERS, 16, by_places=True))
    assert max(PADDED[batch].sum() for batch in drawn) <= 16 * PADDED.mean()
    assert np.mean([len(batch) for batch in drawn]) == pytest.approx(16, rel=0.2)


def test_orders_run_by_length_or_by_chance_with_the_fullest_first():
    short = [PADDED[batch[0]] for batch in BucketBatches(LENGTHS, BORDERS, 16, order="short-first")]
    long = [PADDED[batch[0]] for batch in BucketBatches(LENGTHS, BORDERS, 16, order="long-first")]
    assert short == sorted(short)
    assert long == sorted(long, reverse=True)
    places = [PADDED[batch].sum() for batch in BucketBatches(LENGTHS, BORDERS, 16)]
    assert places[0] == max(places)
    assert places[1:] != sorted(places[1:])


def test_the_same_chance_draws_the_same_batches_and_each_pass_others():
    batches = BucketBatches(LENGTHS, BORDERS, 16)
    torch.manual_seed(3)
    first, second = list(batches), list(batches)
    torch.manual_seed(3)
    assert list(batches) == first != second


def test_data_smaller_than_a_batch_give_none():
    assert len(BucketBatches(LENGTHS, BORDERS, 500)) > 0
    assert list(BucketBatches(LENGTHS, BORDERS, 501)) == []


def test_the_loader_hands_over_whole_batches():
    dataset = TensorDataset(torch.from_numpy(LENGTHS))
    batches = BucketBatches(LENGTHS, BORDERS, 16)
    seen = torch.cat([batch[0] for batch in bucket_loader(dataset, batches, default_collate, Settings())])
    assert sorted(seen.tolist()) == sorted(LENGTHS.tolist())
