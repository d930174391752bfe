"""LARS against a reference in plain Python numbers."""

import copy
import io
import math
import random

import pytest
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.training.optimizers.lars import Lars
from legroom.training.optimizers.trust import split_parameters

SHAPES = ((3, 5), (300, 2), (7,), (2, 3, 4, 4))
NUM_STEPS = 60


def norm(values):
    return math.sqrt(math.fsum(value * value for value in values))


def lars_step(w, g, v, *, lr, momentum, weight_decay, eta=0.001, nesterov=False, adapt=True):
    """The paper's algorithm 1 on one layer, a number at a time."""
    local = 1.0
    if adapt and norm(w) > 0 and norm(g) > 0:
        local = eta * norm(w) / (norm(g) + weight_decay * norm(w))
    new_w, new_v = [], []
    for weight, slope, speed in zip(w, g, v, strict=True):
        push = lr * local * (slope + weight_decay * weight)
        speed = momentum * speed + push
        new_v.append(speed)
        new_w.append(weight - (push + momentum * speed if nesterov else speed))
    return new_w, new_v


def random_tensor(rng, shape, scale=1.0):
    return [rng.gauss(0, scale) for _ in range(math.prod(shape))]


def as_tensor(values, shape, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype).reshape(shape)


def changing_rate(step):
    return 3.0 * (step + 1) / 10 if step < 10 else 3.0 * (1 - step / (NUM_STEPS + 1)) ** 2


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("adapt", [False, True])
def test_follows_the_scalar_reference_while_the_rate_changes(momentum, nesterov, weight_decay, adapt):
    rng = random.Random(0)
    weights = [random_tensor(rng, shape) for shape in SHAPES]
    speeds = [[0.0] * len(values) for values in weights]
    params = [nn.Parameter(as_tensor(values, shape)) for values, shape in zip(weights, SHAPES, strict=True)]
    options = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov, "adapt": adapt}
    optimizer = Lars(params, 1.0, **options)
    for step in range(NUM_STEPS):
        lr = changing_rate(step) * (1 if adapt else 0.01)
        optimizer.param_groups[0]["lr"] = lr
        for index, (param, shape) in enumerate(zip(params, SHAPES, strict=True)):
            grad = random_tensor(rng, shape, scale=10.0 ** (index - 2))
            param.grad = as_tensor(grad, shape)
            weights[index], speeds[index] = lars_step(weights[index], grad, speeds[index], lr=lr, **options)
        optimizer.step()
    for param, values in zip(params, weights, strict=True):
        assert param.flatten().tolist() == pytest.approx(values, rel=1e-6, abs=1e-12)


def test_float32_stays_near_the_reference():
    rng = random.Random(1)
    weights = random_tensor(rng, (40, 30))
    speed = [0.0] * len(weights)
    param = nn.Parameter(as_tensor(weights, (40, 30), torch.float32))
    weights = param.detach().double().flatten().tolist()
    optimizer = Lars([param], 0.5, weight_decay=1e-3)
    for _ in range(20):
        grad = as_tensor(random_tensor(rng, (40, 30)), (40, 30), torch.float32)
        param.grad = grad
        values = grad.double().flatten().tolist()
        weights, speed = lars_step(weights, values, speed, lr=0.5, momentum=0.9, weight_decay=1e-3)
        optimizer.step()
    assert param.flatten().tolist() == pytest.approx(weights, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("weight", "grad"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_local_rate_is_one_where_a_norm_is_zero(weight, grad):
    param = nn.Parameter(torch.full((2, 2), weight, dtype=torch.float64))
    param.grad = torch.full((2, 2), grad, dtype=torch.float64)
    Lars([param], 0.1, momentum=0.0, weight_decay=0.5).step()
    assert param.flatten().tolist() == pytest.approx([weight - 0.1 * (grad + 0.5 * weight)] * 4)


def test_step_length_is_the_same_whatever_the_scale_of_the_gradient():
    def moved(scale):
        param = nn.Parameter(torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3))
        param.grad = torch.ones(2, 3, dtype=torch.float64) * scale
        before = param.detach().clone()
        Lars([param], 1.0).step()
        return (param - before).detach()

    torch.testing.assert_close(moved(1.0), moved(1e6))


def test_split_keeps_biases_and_norms_from_decay_and_adaptation():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    model[3].weight.requires_grad_(False)
    weights, others = split_parameters(model, 1e-2)
    assert weights["params"] == [model[0].weight]
    assert {id(param) for param in others["params"]} == {
        id(param) for param in (model[0].bias, *model[1].parameters(), model[3].bias)
    }
    bias = model[0].bias.detach().clone()
    optimizer = Lars([weights, others], 0.1)
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = torch.ones_like(param)
    optimizer.step()
    torch.testing.assert_close(model[0].bias.detach(), bias - 0.1)


def train(optimizer, params, num_steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator)
        optimizer.step()


def test_resumes_bit_for_bit_from_a_saved_state():
    params = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimizer = Lars(params, 0.3, weight_decay=1e-3, nesterov=True)
    train(optimizer, params, 3, seed=0)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    copies = copy.deepcopy(params)
    resumed = Lars(copies, 9.0)
    resumed.load_state_dict(torch.load(file))
    train(optimizer, params, 4, seed=1)
    train(resumed, copies, 4, seed=1)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(params, copies, strict=True))


def test_a_parameter_without_gradient_stays():
    params = [nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))]
    optimizer = Lars(params, 1.0)
    optimizer.step()
    params[0].grad = torch.ones(2, 2)
    optimizer.step()
    assert torch.equal(params[1], torch.ones(2, 2))
    assert params[1] not in optimizer.state
    params[0].grad, params[1].grad = None, torch.ones(2, 2)
    kept = params[0].detach().clone()
    optimizer.step()
    assert torch.equal(params[0], kept)
    assert not torch.equal(params[1], torch.ones(2, 2))


def test_memory_layout_does_not_change_the_result():
    plain = nn.Parameter(torch.randn(4, 3, 5, 5))
    last = nn.Parameter(plain.detach().clone(memory_format=torch.channels_last))
    mixed = nn.Parameter(plain.detach().clone())
    params = [plain, last, mixed]
    optimizer = Lars(params, 1.0, weight_decay=0.1)
    for _ in range(3):
        grad = torch.randn(4, 3, 5, 5)
        plain.grad, last.grad = grad.clone(), grad.clone(memory_format=torch.channels_last)
        mixed.grad = last.grad.clone()
        optimizer.step()
        mixed.data = mixed.data.to(memory_format=torch.channels_last)
    torch.testing.assert_close(last, plain)
    torch.testing.assert_close(mixed, plain)


@pytest.mark.parametrize("nesterov", [False, True])
def test_bfloat16_and_float32_share_a_group(nesterov):
    half, full = nn.Parameter(torch.ones(8, 8, dtype=torch.bfloat16)), nn.Parameter(torch.ones(8, 8))
    optimizer = Lars([half, full], 10.0, eta=0.01, nesterov=nesterov)
    for _ in range(3):
        half.grad, full.grad = torch.ones_like(half), torch.ones_like(full)
        optimizer.step()
    torch.testing.assert_close(half.float(), full.detach(), rtol=2e-2, atol=0)
    assert full[0, 0].item() < 0.7


def test_gradient_is_left_as_it_was():
    param = nn.Parameter(torch.ones(3, 3))
    param.grad = torch.full((3, 3), 2.0)
    Lars([param], 1.0, weight_decay=0.1).step()
    assert torch.equal(param.grad, torch.full((3, 3), 2.0))


def test_closure_and_grad_scaler():
    param = nn.Parameter(torch.ones(2, 2))
    optimizer = Lars([param], 1.0)

    def closure():
        loss = param.square().sum()
        loss.backward()
        return loss.detach()

    assert float(optimizer.step(closure)) == pytest.approx(4.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer.zero_grad()
    before = param.detach().clone()
    scaler.scale((param * math.inf).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(param, before)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": -1.0},
        {"lr": math.nan},
        {"lr": math.inf},
        {"lr": torch.tensor(1.0)},
        {"lr": 1.0, "momentum": 1.0},
        {"lr": 1.0, "weight_decay": -1e-4},
        {"lr": 1.0, "eta": math.nan},
        {"lr": 1.0, "momentum": 0.0, "nesterov": True},
    ],
)
def test_options_outside_their_range_are_refused(options):
    with pytest.raises(UsageError):
        Lars([nn.Parameter(torch.ones(2, 2))], **options)


def test_a_rate_that_turns_nan_is_refused_before_it_harms():
    param = nn.Parameter(torch.ones(2, 2))
    optimizer = Lars([param], 1.0)
    param.grad = torch.ones(2, 2)
    optimizer.param_groups[0]["lr"] = math.nan
    with pytest.raises(UsageError, match="lr is nan"):
        optimizer.step()
    assert torch.equal(param, torch.ones(2, 2))


def test_what_the_kernels_cannot_walk_is_refused():
    with pytest.raises(UsageError, match="gaps"):
        Lars([nn.Parameter(torch.ones(4, 8)[:, ::2])], 1.0)
    with pytest.raises(UsageError, match="complex64"):
        Lars([nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))], 1.0)
    table = nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(UsageError, match="sparse"):
        Lars(table.parameters(), 1.0).step()
