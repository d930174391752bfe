"""Columns cover the text in order; the carried state joins them, apart for evaluation, and survives a checkpoint."""

import io
import math

import pytest
import torch

from legroom import Job, Score, Settings
from legroom.training.evaluation import evaluate
from legroom.training.step import TrainingStep
from legroom.workloads.models.language_model import LanguageModel, mean_loss, total_loss
from legroom.workloads.text.running_text import Columns, Words

CPU = torch.device("cpu")
NUM_WORDS = 12
TEXT = Words(torch.randint(NUM_WORDS, (400,), generator=torch.Generator().manual_seed(0)))
SETTINGS = Settings(batch_size=4, learning_rate=1.0, clip_norm=0.25)


def make_model():
    torch.manual_seed(1)
    return LanguageModel(NUM_WORDS, hidden=6, num_layers=2, dropout=0.0, spread=0.5)


JOB = Job(
    model=make_model,
    train_data=lambda: TEXT,
    loader=lambda dataset, settings: Columns(dataset, settings.batch_size, window=5),
    loss=mean_loss,
    optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    score=Score(total_loss, goal="min", finish=math.exp),
)


def make_step(model):
    return TrainingStep(JOB, model, JOB.optimizer(model, SETTINGS.learning_rate), SETTINGS, CPU)


def logits(model, batches):
    return torch.cat([model(batch["words"], batch["first"], batch["row"]) for batch in batches])


@pytest.mark.parametrize("training", [True, False])
def test_short_windows_give_what_one_long_window_gives(training):
    model = make_model().train(training)
    short, long = Columns(TEXT, 4, window=5), Columns(TEXT, 4, window=95)
    assert len(short) == 19
    assert len(long) == 1
    torch.testing.assert_close(logits(model, short), logits(model, long))


def test_a_new_pass_starts_anew():
    model = make_model().eval()
    assert torch.equal(logits(model, Columns(TEXT, 4, 5)), logits(model, Columns(TEXT, 4, 5)))


def test_loss_and_score_of_an_evaluation_read_the_same_text():
    text = Words(TEXT.words, to_the_end=True)
    evaluation = evaluate(JOB, make_model(), Columns(text, 4, 5), CPU, "fp32")
    whole = next(iter(Columns(text, 4, window=99)))
    expected = mean_loss(make_model().eval(), whole)[0].item()
    assert evaluation.loss == pytest.approx(expected, rel=1e-6)
    assert evaluation.score == pytest.approx(math.exp(expected), rel=1e-6)


def test_an_evaluation_amid_an_epoch_does_not_disturb_training():
    plain, disturbed = make_model(), make_model()
    step, other = make_step(plain), make_step(disturbed)
    for batch in Columns(TEXT, 4, 5):
        evaluate(JOB, disturbed, Columns(TEXT, 2, 7), CPU, "fp32")
        assert torch.equal(step([batch]), other([batch]))


def test_a_checkpoint_amid_an_epoch_resumes_exactly():
    model = make_model()
    step = make_step(model)
    batches = list(Columns(TEXT, 4, 5))
    for batch in batches[:7]:
        step([batch])
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    resumed = make_model()
    resumed.load_state_dict(torch.load(file, weights_only=True))
    again = make_step(resumed)
    for batch in batches[7:]:
        assert torch.equal(step([batch]), again([batch]))


def test_a_fresh_model_is_saved_and_read_back():
    batch, used = next(iter(Columns(TEXT, 4, 5)))["words"], make_model()
    used(batch, True, 0)
    used.load_state_dict(make_model().state_dict())
    assert torch.equal(used(batch, False, 5), make_model()(batch, False, 5))


def test_another_batch_size_amid_the_text_starts_anew():
    model = make_model()
    four, two = list(Columns(TEXT, 4, 5)), list(Columns(TEXT, 2, 5))
    logits(model, four[:2])
    expected = make_model()(two[3]["words"], True, 15)
    assert torch.equal(model(two[3]["words"], False, 15), expected)


def test_no_graph_is_carried():
    model = make_model()
    logits(model, list(Columns(TEXT, 4, 5))[:2])
    assert not any(part.requires_grad for part in model.carried[True].after)


def test_parameters_start_within_the_spread():
    model = LanguageModel(50, 40, 2, dropout=0.5, spread=0.1)
    values = torch.cat([parameter.flatten() for parameter in model.parameters()])
    assert 0.099 < values.abs().max() <= 0.1
    assert values.abs().mean().item() == pytest.approx(0.05, rel=0.05)


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
