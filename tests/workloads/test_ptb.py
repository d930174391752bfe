"""The Penn Treebank is read as published, and the defaults are the paper's updates in other units."""

import math

import pytest
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.training.schedule_text import make_schedule
from legroom.workloads import ptb_large, ptb_small
from legroom.workloads.readers.published import look_for
from legroom.workloads.text import penn_treebank
from legroom.workloads.text.chance import unigram_loss

TEXTS = {"train": "the cat saw the dog\nthe dog ran <unk>\n", "valid": "the bird saw\n", "test": "a dog\nran\n"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tiny files, taken for the published ones."""
    for part, text in TEXTS.items():
        (tmp_path / f"ptb.{part}.txt").write_text(text)
    monkeypatch.setattr(penn_treebank, "FILE_BYTES", {part: len(text) for part, text in TEXTS.items()})
    return tmp_path


def test_words_are_numbered_by_frequency_and_lines_end_with_eos(folder):
    words = ptb_small.job(data=str(folder)).train_data().words
    # the 3, <eos> 2, dog 2, then <unk>, cat, ran, saw once each
    assert words.tolist() == [0, 4, 6, 0, 2, 1, 0, 2, 5, 3, 1]


def test_the_part_that_judges_is_chosen_and_strange_words_are_unknown(folder):
    assert ptb_small.job(data=str(folder)).valid_data().words.tolist() == [0, 3, 6, 1]
    assert ptb_large.job(data=str(folder), evaluate="test").valid_data().words.tolist() == [3, 2, 1, 5, 1]


def test_an_evaluation_reads_to_the_end_and_training_does_not(folder):
    job = ptb_small.job(data=str(folder))
    assert (job.train_data().to_the_end, job.valid_data().to_the_end) == (False, True)


def test_a_truncated_or_missing_file_is_named_with_its_size_and_source(folder):
    (folder / "ptb.test.txt").write_text("a")
    with pytest.raises(
        UsageError, match=r"ptb.test.txt has 1 bytes; as published it has 10: it is truncated.*imikolov"
    ):
        ptb_small.job(data=str(folder))
    (folder / "ptb.test.txt").unlink()
    with pytest.raises(UsageError, match=r"no ptb.test.txt in .* It has 10 bytes and is published at .*imikolov"):
        ptb_small.job(data=str(folder))


def test_bytes_that_are_no_text_are_refused(folder):
    (folder / "ptb.train.txt").write_bytes(b"\xff" * len(TEXTS["train"]))
    with pytest.raises(UsageError, match=r"ptb.train.txt is no text in UTF-8"):
        ptb_small.job(data=str(folder)).train_data()


def test_the_stand_in_says_that_it_is_one_and_has_the_real_length():
    job = ptb_small.job(data="synthetic")
    assert "synthetic stand-in" in job.notes[0]
    words = job.train_data().words
    assert len(words) == 929_589
    assert 0 <= words.min() <= words.max() < penn_treebank.NUM_WORDS
    assert len(job.loader(job.train_data(), job.baseline)) == 2323
    assert torch.equal(words, job.train_data().words)


@pytest.mark.parametrize(("module", "rate", "clip"), [(ptb_small, 1.0, 5.0), (ptb_large, 1.0, 10.0)])
def test_an_update_equals_the_papers(module, rate, clip):
    """Loss summed over the window with the paper's rate and clip, or its mean with ours: the same weights."""
    job = module.job(data="synthetic", hidden=4)
    window = module.WINDOW
    random = torch.Generator().manual_seed(0)
    words = torch.randint(penn_treebank.NUM_WORDS, (window, 2), generator=random)
    batch = {"words": words, "next": words.flip(0), "first": True, "row": 0}
    updated = []
    baseline = job.baseline
    for factor, step_rate, norm in [(window, rate, clip), (1, baseline.learning_rate, baseline.clip_norm)]:
        torch.manual_seed(0)
        model = job.model()
        for scale in (1.0, 1e3):  # the second is clipped
            optimizer = job.optimizer(model, step_rate)
            torch.manual_seed(1)  # the same dropout
            (job.loss(model, batch)[0] * factor * scale).backward()
            nn.utils.clip_grad_norm_(model.parameters(), norm)
            optimizer.step()
            optimizer.zero_grad()
        updated.append(nn.utils.parameters_to_vector(model.parameters()))
    torch.testing.assert_close(*updated)


def test_models_of_other_sizes_are_made():
    job = ptb_small.job(data="synthetic", hidden=4)
    assert job.resize["width"](6)().reader.hidden_size == 6
    assert job.resize["depth"](3)().reader.num_layers == 3


@pytest.mark.parametrize(("module", "last_full", "factor"), [(ptb_small, 4, 1 / 2), (ptb_large, 14, 1 / 1.15)])
def test_the_rate_falls_each_epoch_after_the_papers(module, last_full, factor):
    baseline = module.job(data="synthetic").baseline
    rate = make_schedule(
        baseline.schedule,
        num_steps=baseline.num_epochs * 10,
        warmup_steps=0,
        steps_per_epoch=10,
        peak=baseline.learning_rate,
    )
    epochs = [rate(10 * epoch) / module.WINDOW for epoch in range(last_full + 2)]
    assert epochs == pytest.approx([1.0] * last_full + [factor, factor**2], rel=1e-5)


@pytest.mark.skipif(not look_for("ptb").found, reason="the Penn Treebank is not here")
@pytest.mark.parametrize("part", ["valid", "test"])
def test_chance_is_the_perplexity_of_the_training_words_shares(part):
    job = ptb_small.job(evaluate=part)
    train, judged = (data.words.numpy() for data in (job.train_data(), job.valid_data()))
    assert job.score.chance == pytest.approx(math.exp(unigram_loss(train, judged, penn_treebank.NUM_WORDS)), abs=0.05)
