"""Triton's kernels against foreach operations: on a card, or with Triton and TRITON_INTERPRET=1 on the CPU."""

import copy
import math
import os

import pytest
import torch
from torch import nn

from legroom.training.optimizers import kernels, tables
from legroom.training.optimizers.lamb import Lamb
from legroom.training.optimizers.lars import Lars

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
can_run = pytest.mark.skipif(
    not kernels.TYPES or (DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"),
    reason="Triton's kernels need a CUDA device, or Triton with TRITON_INTERPRET=1",
)
SHAPES = ((3, 5), (300, 2), (7,), (2, 3, 4, 4), (130, 131))
MAKERS = {
    "lars": lambda params, **options: Lars(params, 0.5, weight_decay=1e-2, **options),
    "nesterov": lambda params, **options: Lars(params, 0.5, weight_decay=1e-2, nesterov=True, **options),
    "no momentum": lambda params, **options: Lars(params, 0.5, momentum=0.0, eps=1e-3, **options),
    "lamb": lambda params, **options: Lamb(params, 0.01, weight_decay=1e-2, **options),
    "lamb without eps": lambda params, **options: Lamb(params, 0.01, betas=(0.5, 0.9), eps=0.0, **options),
}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setattr(tables, "CHUNK", 2048)  # the interpreter walks whole chunks, slowly


def make_params(dtype=torch.float32, shapes=SHAPES):
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape, device=DEVICE).to(dtype)) for shape in shapes]


def train(optimizer, params, num_steps, seed=0):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    for _ in range(num_steps):
        for param in params:
            grad = torch.randn(param.shape, generator=generator, device=DEVICE)
            param.grad = grad.to(param.dtype)
        optimizer.step()


def tables_of(optimizer):
    return [bucket.table for _, buckets in optimizer._buckets.values() for bucket in buckets]


def assert_near_float64(name, params, num_steps, rtol=1e-6, **options):
    """float64 takes the foreach path on any device."""
    exact = [nn.Parameter(param.detach().double()) for param in params]
    reference, optimizer = MAKERS[name](exact, **options), MAKERS[name](params, **options)
    train(reference, exact, num_steps)
    train(optimizer, params, num_steps)
    assert None not in tables_of(optimizer)
    assert tables_of(reference) == [None]
    for mine, theirs in zip(params, exact, strict=True):
        scale = theirs.abs().max().item()
        torch.testing.assert_close(mine.double(), theirs, rtol=rtol, atol=rtol * scale)


@can_run
@pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter divides 0 by 0 outside the mask
@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_kernels_do_what_foreach_does_in_float64(name, adapt):
    assert_near_float64(name, make_params(), num_steps=5, adapt=adapt)


@can_run
@pytest.mark.parametrize(
    ("name", "dtype", "rtol"),
    [("nesterov", torch.bfloat16, 2e-2), ("nesterov", torch.float16, 2e-3), ("lamb", torch.bfloat16, 2e-2)],
)
def test_kernels_take_16_bit_parameters(name, dtype, rtol):
    torch.manual_seed(0)
    params = make_params(dtype)
    exact = [nn.Parameter(param.detach().float()) for param in params]
    for chosen in (params, exact):
        train(MAKERS[name](chosen), chosen, num_steps=3)
    for mine, theirs in zip(params, exact, strict=True):
        torch.testing.assert_close(mine.float(), theirs, rtol=rtol, atol=rtol)


@can_run
@pytest.mark.parametrize("name", ["lars", "lamb"])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_rate_is_whole_where_a_norm_is_zero(name, weight):
    params = [
        nn.Parameter(torch.full((2, 2), weight, device=DEVICE, dtype=dtype)) for dtype in (torch.float, torch.double)
    ]
    for param in params:
        param.grad = torch.full_like(param, 1.0 - weight)
        MAKERS[name]([param]).step()
    torch.testing.assert_close(params[0].double(), params[1], rtol=1e-6, atol=0)
    assert not params[0].isnan().any()


@can_run
@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_kernels_follow_tensors_that_move(name):
    """Gradients, parameters and states change address, layout or type between steps; foreach does not mind."""
    params = make_params(shapes=[(2, 3, 4, 4), (5, 4)])
    exact = [nn.Parameter(param.detach().double()) for param in params]
    optimizers = MAKERS[name](params), MAKERS[name](exact)
    kept = []
    for step in range(6):
        for param, other in zip(params, exact, strict=True):
            grad = torch.randn(param.shape, device=DEVICE)
            kept.append(grad)  # so that the next one lies elsewhere
            param.grad = grad.mT.contiguous().mT if step == 1 else grad
            other.grad = grad.double()
        if step == 2:
            params[0].data = params[0].data.to(memory_format=torch.channels_last)
        if step == 3:
            state = optimizers[0].state[params[1]]
            state.update({key: value.clone() for key, value in state.items() if isinstance(value, torch.Tensor)})
        if step == 4:
            optimizers[0].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
        if step == 5:
            for optimizer in optimizers:
                optimizer.state.clear()
        for optimizer in optimizers:
            optimizer.step()
    for mine, theirs in zip(params, exact, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-6, atol=1e-6)


@can_run
@pytest.mark.parametrize("name", ["nesterov", "lamb"])
def test_a_resumed_run_repeats_bit_for_bit(name):
    params = make_params()
    optimizer = MAKERS[name](params)
    train(optimizer, params, 3)
    copies = copy.deepcopy(params)
    resumed = MAKERS[name](copies)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(optimizer, params, 3, seed=1)
    train(resumed, copies, 3, seed=1)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(params, copies, strict=True))


@can_run
@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_autograd_sees_the_change(name):
    param = nn.Parameter(torch.ones(2, 2, device=DEVICE))
    loss = param.square().sum()
    loss.backward(retain_graph=True)
    MAKERS[name]([param]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_without_triton_a_warning_says_what_it_costs(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(tables, "Table", refuse)
    with pytest.warns(UserWarning, match="no C compiler"):
        assert not tables.triton_works.__wrapped__(torch.device("cpu"))


def resnet50_shapes():
    """The 161 parameter tensors of ResNet-50."""
    shapes, num_in = [(64, 3, 7, 7), (64,), (64,)], 64
    for width, num_blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(num_blocks):
            convolutions = [(width, num_in, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            convolutions += [(4 * width, num_in, 1, 1)] if block == 0 else []
            for shape in convolutions:
                shapes += [shape, shape[:1], shape[:1]]
            num_in = 4 * width
    return [*shapes, (1000, num_in), (1000,)]


@pytest.mark.skipif(DEVICE == "cpu", reason="25 million parameters over 20 steps need a CUDA device")
@can_run
@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_kernels_agree_with_foreach_on_resnet50(name):
    shapes = resnet50_shapes()
    assert (len(shapes), sum(map(math.prod, shapes))) == (161, 25_557_032)
    assert_near_float64(name, make_params(shapes=shapes), num_steps=20, rtol=1e-5)
