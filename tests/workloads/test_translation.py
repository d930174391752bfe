"""Translation is the published network, reads any pairs, and trains with every option."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.questions.vocabulary.advice import output_parameters
from legroom.workloads import translation
from legroom.workloads.text.chance import constant_accuracies

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven"]
FRENCH = ["un", "deux", "trois", "quatre", "cinq", "six", "sept"]


def make_sentences(words):
    """200 sentences of 1 to 6 words, each other than the one before."""
    return [" ".join(words[(place * step + place // 7) % 7] for step in range(place % 6 + 1)) for place in range(200)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Parallel files of sentences."""
    folder = tmp_path_factory.mktemp("pairs")
    for name, words in (("en", NUMBERS), ("fr", FRENCH)):
        (folder / name).write_text("\n".join(make_sentences(words)) + "\n")
    return {"source": str(folder / "en"), "target": str(folder / "fr")}


def num_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_encoder_decoder_is_as_published(files):
    model = translation.job(**files).model()
    assert isinstance(model.body.encoder, nn.GRU)
    assert (model.body.encoder.hidden_size, model.body.decoder.hidden_size) == (128, 128)
    assert model.body.encoder.input_size == 7 + 2  # words one-hot, with padding and the unknown
    assert num_parameters(model.word) == output_parameters(128, 7 + 1)
    words = torch.tensor([[2, 3, 4, 0]])
    read, _ = model.body.encoder(nn.functional.one_hot(words, 9).float())
    told, _ = model.body.decoder(read[:, -1:].expand(-1, 4, -1))
    torch.testing.assert_close(model(words), model.word(told))


def test_the_bidirectional_network_is_one_layer_of_128_in_each_direction(files):
    model = translation.job(network="bidirectional", **files).model()
    assert (model.body.reader.hidden_size, model.body.reader.num_layers) == (128, 1)
    assert model.word.in_features == 256


def test_masking_reads_the_state_of_the_last_word(files):
    model = translation.job(masking=True, hidden=8, **files).model()
    words = torch.tensor([[2, 3, 4, 0, 0]])
    torch.testing.assert_close(model(words)[:, :3], model(words[:, :3]))


def test_loss_and_accuracy_leave_padding_out_when_masked(files):
    plain, masked = (translation.job(masking=masking, hidden=8, **files) for masking in (False, True))
    batch = plain.train_data().__getitems__([0, 5])
    assert batch[1].shape == (2, 6)
    model = plain.model()
    assert [int(count) for count in (plain.loss(model, batch)[1], plain.score.measure(model, batch)[1])] == [12, 12]
    held = int((batch[1] != 0).sum())
    assert [int(job[1]) for job in (masked.loss(model, batch), masked.score.measure(model, batch))] == [held, held]
    scores = model(batch[0])[batch[1] != 0]
    torch.testing.assert_close(
        masked.loss(model, batch)[0], nn.functional.cross_entropy(scores, batch[1][batch[1] != 0])
    )


OPTIONS = [
    {},
    {"network": "bidirectional", "cell": "lstm", "attention": True},
    {"cell": "rnn", "embedding": 4, "attention": True, "masking": True},
    {"merges": 5, "batches": "bucketed", "buckets": 3},
    {"batches": "places", "order": "long-first", "layers": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("one_thread")
def test_two_epochs_lower_the_loss(files, options, train_two_epochs):
    job = translation.job(hidden=16, **options, **files)
    first, last = train_two_epochs(job, batch_size=16, learning_rate=0.01).evaluations
    assert last.loss < first.loss
    assert 0 <= last.score < 1


@pytest.mark.parametrize("options", [{}, {"network": "bidirectional"}, {"batches": "bucketed"}], ids=str)
def test_memory_is_estimated_and_grows_with_the_batch(files, options, estimate_bytes):
    small, large = estimate_bytes(translation.job(hidden=16, **options, **files), 1000, 4000)
    assert large > small


def test_both_sides_are_padded_alike_and_pairs_of_a_sentence_stay_together(files):
    job = translation.job(**files)
    source, target = job.train_data().__getitems__([0, 1, 2])
    assert source.shape == target.shape == (3, 6)
    parts = [{tuple(row.tolist()) for row, _ in part} for part in (job.train_data(), job.valid_data())]
    assert not parts[0] & parts[1]


def test_buckets_pad_less_and_say_so(files):
    notes = [translation.job(batches=batches, **files).notes[0] for batches in ("padded", "bucketed")]
    shares = [int(note.partition("%")[0]) for note in notes]
    assert shares[0] > 40 > shares[1] == 0


def test_a_tab_separated_file_gives_the_same_numbers(files, tmp_path):
    lines = zip(*(Path(files[side]).read_text().splitlines() for side in ("source", "target")), strict=True)
    (tmp_path / "both.tsv").write_text("\n".join("\t".join(line) for line in lines))
    one, two = translation.job(source=str(tmp_path / "both.tsv")), translation.job(**files)
    assert np.array_equal(one.train_data().target.flat, two.train_data().target.flat)


def test_what_knows_nothing_scores_what_chance_says(files):
    for accuracy in ("masked", "unmasked"):
        job = translation.job(accuracy=accuracy, **files)
        valid = job.valid_data()
        targets = valid.__getitems__(range(len(valid)))[1]
        held = targets[targets != 0] if accuracy == "masked" else targets.flatten()
        assert job.score.chance == pytest.approx(
            max(float((held == code).float().mean()) for code in range(9)), abs=0.1
        )


def test_baselines_are_ordered(files):
    parts = translation.job(**files).train_data(), translation.job(**files).valid_data()
    constant = constant_accuracies(*parts)
    assert constant["most frequent word, masked"] > constant["most frequent word, unmasked"]


def test_models_of_other_sizes_are_made(files):
    job = translation.job(**files)
    assert job.resize["width"](6)().body.encoder.hidden_size == 6
    assert job.resize["depth"](3)().body.decoder.num_layers == 3


def test_long_sentences_are_left_out_and_counted(files):
    job = translation.job(max_length=4, **files)
    assert job.train_data().lengths.max() == 4
    assert "66 pairs are left out" in job.notes[1]
    with pytest.raises(UsageError, match=r"none of 200 pairs is left for training"):
        translation.job(source=files["source"], target=files["target"], merges=1, max_length=1)


def test_missing_files_are_named_with_their_source(tmp_path):
    with pytest.raises(UsageError, match=r"There is no small_vocab_en or small_vocab_en.gz .*aind2-nlp-capstone"):
        translation.job(data=str(tmp_path))
    with pytest.raises(UsageError, match=r"no fra.txt or fra-eng.zip .* 11,669,748 bytes .*manythings.org"):
        translation.job(data=str(tmp_path), pairs="tatoeba")
    (tmp_path / "fra-eng.zip").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(UsageError, match=r"fra-eng.zip has 8 bytes and is truncated.*manythings.org.*11,669,748 bytes"):
        translation.job(data=str(tmp_path), pairs="tatoeba")
    with pytest.raises(UsageError, match=r"There is no file 'nowhere'"):
        translation.job(source="nowhere")


def test_a_threshold_that_leaves_nothing_names_the_file(files):
    with pytest.raises(UsageError, match=r"min_frequency=1000000 .*source side of .*/en and"):
        translation.job(min_frequency=1_000_000, **files)
