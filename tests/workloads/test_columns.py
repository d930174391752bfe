"""Columns cover the text in order, whatever the batch size."""

import pytest
import torch

from legroom.workloads.columns import Columns, Words


@pytest.mark.parametrize("batch_size", [1, 3, 7, 20])
@pytest.mark.parametrize("to_the_end", [False, True])
def test_each_column_is_a_stretch_of_the_text_read_in_order(batch_size, to_the_end):
    columns = Columns(Words(torch.arange(500), to_the_end=to_the_end), batch_size, window=6)
    batches = list(columns)
    assert len(columns) == len(batches)
    words = torch.cat([batch["words"] for batch in batches])
    assert torch.equal(torch.cat([batch["next"] for batch in batches]), words + 1)
    assert torch.equal(words, words[:1] + torch.arange(len(words))[:, None])
    assert [batch["first"] for batch in batches] == [True] + [False] * (len(batches) - 1)
    assert [batch["row"] for batch in batches] == list(range(0, len(words), 6))


def test_training_windows_are_equal_and_an_evaluation_reads_to_the_end():
    text = torch.arange(2 * 21)  # 20 words with a next one in each of 2 columns
    assert [len(batch["words"]) for batch in Columns(Words(text), 2, window=6)] == [6, 6, 6]
    assert [len(batch["words"]) for batch in Columns(Words(text, to_the_end=True), 2, window=6)] == [6, 6, 6, 2]


def test_the_published_text_at_batch_20_gives_2323_updates_an_epoch():
    assert len(Columns(Words(torch.zeros(929_589, dtype=torch.int64)), 20, window=20)) == 2323


@pytest.mark.parametrize("to_the_end", [False, True])
def test_columns_shorter_than_a_window_give_no_batch(to_the_end):
    text = Words(torch.arange(60), to_the_end=to_the_end)
    assert len(Columns(text, 8, window=6)) == 1
    assert len(Columns(text, 10, window=6)) == 0
    assert list(Columns(text, 61, window=6)) == []


def test_a_batch_can_be_iterated_again():
    columns = Columns(Words(torch.arange(100)), 2, window=6)
    assert [b["row"] for b in columns] == [b["row"] for b in columns]
