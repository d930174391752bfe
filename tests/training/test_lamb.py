"""LAMB against a reference in plain Python numbers."""

import copy
import io
import math
import random

import pytest
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.training.optimizers.lamb import Lamb

SHAPES = ((3, 5), (300, 2), (7,), (2, 3, 4, 4))
NUM_STEPS = 60


def norm(values):
    return math.sqrt(math.fsum(value * value for value in values))


def lamb_step(w, g, mean, square, step, *, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, adapt=True):
    """The paper's algorithm 2 on one layer, a number at a time; step counts from 1."""
    b1, b2 = betas
    mean = [b1 * old + (1 - b1) * slope for old, slope in zip(mean, g, strict=True)]
    square = [b2 * old + (1 - b2) * slope**2 for old, slope in zip(square, g, strict=True)]
    r = []
    for weight, first, second in zip(w, mean, square, strict=True):
        direction = first / (1 - b1**step) / (math.sqrt(second / (1 - b2**step)) + eps)
        r.append(direction + weight_decay * weight)
    ratio = norm(w) / norm(r) if adapt and norm(w) > 0 and norm(r) > 0 else 1.0
    return [weight - lr * ratio * push for weight, push in zip(w, r, strict=True)], mean, square


def random_tensor(rng, shape, scale=1.0):
    return [rng.gauss(0, scale) for _ in range(math.prod(shape))]


def as_tensor(values, shape, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype).reshape(shape)


def changing_rate(step):
    return 0.02 * (step + 1) / 10 if step < 10 else 0.02 * (1 - step / (NUM_STEPS + 1)) ** 2


@pytest.mark.parametrize("weight_decay", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize("adapt", [False, True])
def test_follows_the_scalar_reference_while_the_rate_changes(weight_decay, adapt):
    rng = random.Random(0)
    weights = [random_tensor(rng, shape) for shape in SHAPES]
    means = [[0.0] * len(values) for values in weights]
    squares = [[0.0] * len(values) for values in weights]
    params = [nn.Parameter(as_tensor(values, shape)) for values, shape in zip(weights, SHAPES, strict=True)]
    options = {"weight_decay": weight_decay, "adapt": adapt, "betas": (0.8, 0.95)}
    optimizer = Lamb(params, 1.0, **options)
    for step in range(NUM_STEPS):
        lr = changing_rate(step)
        optimizer.param_groups[0]["lr"] = lr
        for index, (param, shape) in enumerate(zip(params, SHAPES, strict=True)):
            grad = random_tensor(rng, shape, scale=10.0 ** (index - 2))
            param.grad = as_tensor(grad, shape)
            weights[index], means[index], squares[index] = lamb_step(
                weights[index], grad, means[index], squares[index], step + 1, lr=lr, **options
            )
        optimizer.step()
    for param, values in zip(params, weights, strict=True):
        assert param.flatten().tolist() == pytest.approx(values, rel=1e-6, abs=1e-12)


def test_float32_stays_near_the_reference():
    rng = random.Random(1)
    param = nn.Parameter(as_tensor(random_tensor(rng, (40, 30)), (40, 30), torch.float32))
    weights = param.detach().double().flatten().tolist()
    mean, square = [0.0] * len(weights), [0.0] * len(weights)
    optimizer = Lamb([param], 0.01, weight_decay=1e-2)
    for step in range(20):
        param.grad = as_tensor(random_tensor(rng, (40, 30)), (40, 30), torch.float32)
        grad = param.grad.double().flatten().tolist()
        weights, mean, square = lamb_step(weights, grad, mean, square, step + 1, lr=0.01, weight_decay=1e-2)
        optimizer.step()
    assert param.flatten().tolist() == pytest.approx(weights, rel=1e-6, abs=1e-6)


def test_decay_alone_is_exact_in_float32():
    param = nn.Parameter(torch.linspace(1, 2, 1000).reshape(10, 100))
    before = param.detach().double()
    param.grad = torch.zeros(10, 100)
    Lamb([param], 0.01, weight_decay=1e-4).step()
    torch.testing.assert_close(param.detach().double(), before * 0.99, rtol=2e-7, atol=0)


@pytest.mark.parametrize(("weight", "grad"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_ratio_is_one_where_a_norm_is_zero(weight, grad):
    param = nn.Parameter(torch.full((2, 2), weight, dtype=torch.float64))
    param.grad = torch.full((2, 2), grad, dtype=torch.float64)
    Lamb([param], 0.1, eps=0.0 if grad else 1e-6).step()
    assert param.flatten().tolist() == pytest.approx([weight - 0.1 * grad] * 4)


def test_without_adaptation_it_is_adamw():
    ours = [nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(4))]
    theirs = copy.deepcopy(ours)
    first = Lamb(ours, 0.01, eps=1e-8, weight_decay=0.1, adapt=False)
    second = torch.optim.AdamW(theirs, 0.01, weight_decay=0.1)
    for _ in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        first.step()
        second.step()
    torch.testing.assert_close(ours, theirs)


def train(optimizer, params, num_steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resumes_bit_for_bit_from_a_saved_state(dtype):
    params = [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]
    optimizer = Lamb(params, 0.03, weight_decay=1e-3)
    train(optimizer, params, 20, seed=0)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    copies = copy.deepcopy(params)
    resumed = Lamb(copies, 9.0)
    resumed.load_state_dict(torch.load(file))
    train(optimizer, params, 4, seed=1)
    train(resumed, copies, 4, seed=1)
    assert resumed.state[copies[0]]["step"] == 24
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(params, copies, strict=True))


def test_bfloat16_and_float32_share_a_group():
    half, full = nn.Parameter(torch.ones(8, 8, dtype=torch.bfloat16)), nn.Parameter(torch.ones(8, 8))
    optimizer = Lamb([half, full], 0.1, weight_decay=0.01)
    for _ in range(3):
        half.grad, full.grad = torch.ones_like(half), torch.ones_like(full)
        optimizer.step()
    torch.testing.assert_close(half.float(), full.detach(), rtol=2e-2, atol=0)
    assert full[0, 0].item() == pytest.approx(0.9**3, rel=1e-4)


def test_a_parameter_that_thaws_late_counts_its_own_steps():
    early, late = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    optimizer = Lamb([early, late], 0.1, adapt=False)  # the ratio would hide a wrong bias correction
    for _ in range(3):
        early.grad = torch.ones(2, 2)
        optimizer.step()
    assert torch.equal(late, torch.ones(2, 2))
    late.grad = torch.ones(2, 2)
    optimizer.step()
    assert [optimizer.state[param]["step"] for param in (early, late)] == [4, 1]
    assert late.flatten().tolist() == pytest.approx([0.9] * 4, rel=1e-5)


def test_memory_layout_does_not_change_the_result():
    plain = nn.Parameter(torch.randn(4, 3, 5, 5))
    last = nn.Parameter(plain.detach().clone(memory_format=torch.channels_last))
    mixed = nn.Parameter(plain.detach().clone())
    optimizer = Lamb([plain, last, mixed], 0.1, weight_decay=0.1)
    for _ in range(3):
        grad = torch.randn(4, 3, 5, 5)
        plain.grad, last.grad = grad.clone(), grad.clone(memory_format=torch.channels_last)
        mixed.grad = last.grad.clone()
        optimizer.step()
        mixed.data = mixed.data.to(memory_format=torch.channels_last)
    torch.testing.assert_close(last, plain)
    torch.testing.assert_close(mixed, plain)


@pytest.mark.parametrize(
    "options", [{"lr": -1.0}, {"lr": math.nan}, {"lr": 1.0, "betas": (0.9, 1.0)}, {"lr": 1.0, "eps": -1.0}]
)
def test_options_outside_their_range_are_refused(options):
    with pytest.raises(UsageError):
        Lamb([nn.Parameter(torch.ones(2, 2))], **options)
