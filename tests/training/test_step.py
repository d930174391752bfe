"""One update from several batches equals one update from all of them at once."""

import copy

import pytest
import torch
from torch import nn

from legroom import Job, Settings
from legroom.errors import JobRaised, UsageError
from legroom.training.step import TrainingStep

CPU = torch.device("cpu")


def mean_loss(model, batch):
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs).squeeze(1), targets)


def token_loss(model, batch):
    """Weighs rows by how many of their targets are known."""
    inputs, targets = batch
    known = targets > 0
    return (model(inputs).squeeze(1) - targets)[known].square().mean(), known.sum()


def make_job(loss=mean_loss, **more):
    return Job(
        model=make_model,
        train_data=list,
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        **more,
    )


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def make_batch(num_rows, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, 6, generator=random), torch.randn(num_rows, generator=random)


def after_update(job, batches, **settings):
    """The loss, and the model's parameters after one update, as one vector."""
    model = job.model()
    chosen = Settings(accumulation_steps=len(batches), **{"learning_rate": 1.0, **settings})
    loss = TrainingStep(job, model, job.optimizer(model, chosen.learning_rate), chosen, CPU)(batches)
    return loss, nn.utils.parameters_to_vector(model.parameters()).detach()


def split(batch, *sizes):
    return list(zip(*(tensor.split(sizes) for tensor in batch), strict=True))


@pytest.mark.parametrize("loss", [mean_loss, token_loss])
@pytest.mark.parametrize("sizes", [(8, 8), (13, 3), (1, 5, 10)])
def test_accumulating_uneven_batches_equals_one_large_batch(loss, sizes):
    job, whole = make_job(loss), make_batch(16)
    loss_of_whole, at_once = after_update(job, [whole])
    loss_of_parts, in_parts = after_update(job, split(whole, *sizes))
    torch.testing.assert_close(in_parts, at_once, atol=1e-6, rtol=0)
    torch.testing.assert_close(loss_of_parts, loss_of_whole, atol=1e-6, rtol=0)


def test_clip_bounds_the_joined_gradient_not_each_part():
    job, whole = make_job(), make_batch(16)
    start = nn.utils.parameters_to_vector(make_model().parameters()).detach()
    _, unclipped = after_update(job, [whole])
    clip = 0.5 * (unclipped - start).norm().item()
    _, at_once = after_update(job, [whole], clip_norm=clip)
    _, in_parts = after_update(job, split(whole, 13, 3), clip_norm=clip)
    assert (at_once - start).norm().item() == pytest.approx(clip, rel=1e-4)
    torch.testing.assert_close(in_parts, at_once, atol=1e-6, rtol=0)


def test_clip_above_the_norm_changes_nothing():
    job, whole = make_job(), make_batch(16)
    assert torch.equal(after_update(job, [whole])[1], after_update(job, [whole], clip_norm=1e6)[1])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_gives_nearly_the_same_update(precision):
    seen = []

    def loss(model, batch):
        outputs = model(batch[0])
        seen.append(outputs.dtype)
        return nn.functional.mse_loss(outputs.float().squeeze(1), batch[1])

    job, whole = make_job(loss), make_batch(16)
    _, full = after_update(job, [whole], learning_rate=0.1)
    _, half = after_update(job, split(whole, 13, 3), learning_rate=0.1, precision=precision)
    assert seen == [torch.float32] + [{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]] * 2
    torch.testing.assert_close(half, full, atol=3e-3, rtol=0)


def test_fp16_clips_the_true_gradient_not_the_scaled_one():
    job, whole = make_job(), make_batch(16)
    start = nn.utils.parameters_to_vector(make_model().parameters()).detach()
    _, end = after_update(job, [whole], precision="fp16", clip_norm=0.01)
    assert (end - start).norm().item() == pytest.approx(0.01, rel=1e-2)


def test_fp16_skips_an_update_whose_gradient_overflows():
    job = make_job(lambda model, batch: mean_loss(model, batch) * float("inf"))
    start = nn.utils.parameters_to_vector(make_model().parameters()).detach()
    _, end = after_update(job, [make_batch(4)], precision="fp16")
    assert torch.equal(start, end)


def test_gradients_do_not_leak_into_the_next_update():
    job, batch = make_job(), make_batch(8)
    model = job.model()
    step = TrainingStep(job, model, job.optimizer(model, 0.0), Settings(), CPU)
    step([batch])
    assert all(parameter.grad is None for parameter in model.parameters())


def test_phases_are_told_in_order():
    phases, job = [], make_job()
    model = job.model()
    settings = Settings(accumulation_steps=2)
    step = TrainingStep(job, model, job.optimizer(model, 0.1), settings, CPU, phases.append)
    step(split(make_batch(4), 2, 2))
    assert phases == ["data", "forward", "backward"] * 2 + ["update"]


def test_returned_loss_holds_no_graph():
    loss, _ = after_update(make_job(), [make_batch(4)])
    assert not loss.requires_grad


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda model, batch: model(batch[0]).squeeze(1), "shape (4,)"),
        (lambda model, batch: 0.5, "float"),
        (lambda model, batch: None, "NoneType"),
        (lambda model, batch: (3, 4), "int"),
    ],
)
def test_loss_that_is_no_scalar_tensor_is_refused(loss, words):
    with pytest.raises(JobRaised, match="legroom needs a scalar") as refused:
        after_update(make_job(loss), [make_batch(4)])
    assert words in str(refused.value)


def test_loss_of_one_element_counts_as_scalar():
    one_row = lambda model, batch: mean_loss(model, batch).reshape(1, 1)  # noqa: E731
    assert after_update(make_job(one_row), [make_batch(4)])[0].shape == ()


def own_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = mean_loss(model, batch)
    loss.backward()
    optimizer.step()
    return loss


def test_own_step_gives_the_same_update_as_ours():
    batch = make_batch(8)
    ours, own = after_update(make_job(), [batch]), after_update(make_job(step=own_step), [batch])
    torch.testing.assert_close(own, ours)


def test_own_step_refuses_accumulation():
    job, batch = make_job(step=own_step), make_batch(8)
    with pytest.raises(UsageError, match="accumulation_steps=1"):
        after_update(job, split(batch, 4, 4))


def test_parameters_without_gradient_are_left_alone():
    job = make_job()
    model = job.model()
    model[2].requires_grad_(False)
    frozen = copy.deepcopy(model[2].state_dict())
    TrainingStep(job, model, job.optimizer(model, 1.0), Settings(clip_norm=1.0), CPU)([make_batch(8)])
    assert all(torch.equal(frozen[name], value) for name, value in model[2].state_dict().items())
