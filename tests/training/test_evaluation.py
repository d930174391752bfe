"""Evaluation over uneven batches equals one over all of them, and leaves the model as it found it."""

import math

import pytest
import torch
from torch import nn

from legroom import Job, Score
from legroom.training.evaluation import evaluate

CPU = torch.device("cpu")


def mean_loss(model, batch):
    return nn.functional.mse_loss(model(batch[0]).squeeze(1), batch[1])


def known_loss(model, batch):
    known = batch[1] > 0
    return (model(batch[0]).squeeze(1) - batch[1])[known].square().mean(), known.sum()


def count_near(model, batch):
    return ((model(batch[0]).squeeze(1) - batch[1]).abs() < 0.7).sum(), len(batch[1])


def make_job(loss=mean_loss, score=None):
    return Job(
        model=make_model,
        train_data=list,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        score=score,
    )


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


def make_batch(num_rows=16):
    random = torch.Generator().manual_seed(0)
    return torch.randn(num_rows, 6, generator=random), torch.randn(num_rows, generator=random)


def split(batch, *sizes):
    return list(zip(*(tensor.split(sizes) for tensor in batch), strict=True))


@pytest.mark.parametrize("loss", [mean_loss, known_loss])
@pytest.mark.parametrize("sizes", [(8, 8), (13, 3), (1, 5, 10)])
def test_uneven_batches_weigh_as_one(loss, sizes):
    job, model = make_job(loss, Score(count_near)), make_model()
    whole = evaluate(job, model, [make_batch()], CPU, "fp32")
    parts = evaluate(job, model, split(make_batch(), *sizes), CPU, "fp32")
    assert parts.loss == pytest.approx(whole.loss, abs=1e-6)
    assert parts.score == whole.score
    assert 0 < whole.score < 1


def test_score_is_finished_once_over_the_mean():
    job, model = make_job(score=Score(count_near, finish=math.exp)), make_model()
    plain = evaluate(make_job(score=Score(count_near)), model, [make_batch()], CPU, "fp32")
    finished = evaluate(job, model, split(make_batch(), 13, 3), CPU, "fp32")
    assert finished.score == pytest.approx(math.exp(plain.score))


def test_evaluation_neither_drops_nor_moves_statistics_nor_keeps_a_graph():
    seen = []

    def loss(model, batch):
        seen.append((model.training, torch.is_grad_enabled()))
        return mean_loss(model, batch)

    model = make_model()
    before = model[1].running_mean.clone()
    first = evaluate(make_job(loss), model, [make_batch()], CPU, "fp32")
    assert first == evaluate(make_job(loss), model, [make_batch()], CPU, "fp32")
    assert torch.equal(before, model[1].running_mean)
    assert seen == [(False, False)] * 2


def test_mode_of_each_part_is_restored():
    model = make_model().train()
    model[1].eval()
    evaluate(make_job(), model, [make_batch()], CPU, "fp32")
    assert [part.training for part in model] == [True, False, True, True]
    assert model.training


def test_mode_is_restored_when_the_job_raises():
    model = make_model().train()

    def loss(model, batch):
        raise ArithmeticError("the user's own")

    with pytest.raises(ArithmeticError):
        evaluate(make_job(loss), model, [make_batch()], CPU, "fp32")
    assert all(part.training for part in model.modules())


def test_nothing_to_evaluate_is_none_not_zero():
    result = evaluate(make_job(score=Score(count_near)), make_model(), [], CPU, "fp32")
    assert (result.loss, result.score) == (None, None)


def test_bf16_gives_nearly_the_same():
    full = evaluate(make_job(), make_model(), [make_batch()], CPU, "fp32")
    half = evaluate(make_job(), make_model(), [make_batch()], CPU, "bf16")
    assert half.loss != full.loss
    assert half.loss == pytest.approx(full.loss, rel=0.05)
