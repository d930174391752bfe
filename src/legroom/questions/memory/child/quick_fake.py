"""Fake tensors with short ways for the operators that take most of a trace's time."""

from collections.abc import Callable
from typing import Any

import torch

from legroom.training.torch_internals import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

aten = torch.ops.aten

DIRECT = frozenset(
    {
        aten.slice.Tensor,
        aten.threshold_backward.default,
        aten.silu_backward.default,
        aten.gelu_backward.default,
        aten.detach.default,
        aten.view.default,
        aten._unsafe_view.default,
        aten.t.default,
        aten.transpose.int,
        aten.permute.default,
        aten.mm.default,
        aten.addmm.default,
    }
)
"""Operators whose own shape rules in C++ say all: fake tensors' Python ones cost a hundred times as much."""


class QuickFakeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """The same answers as FakeTensorMode's, sooner: a network of 200 layers has 10,000 operators."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer by a short way where one is known and the arguments are plain."""
        shapes = BY_HAND.get(func)
        if (func in DIRECT or shapes is not None) and _is_plain(self, args):
            with in_kernel_invocation_manager(self):
                made = (shapes or func)(*args, **(kwargs or {}))
            return _wrap(self, made)
        return super().dispatch(func, types, args, kwargs or {})


def _is_plain(mode: FakeTensorMode, args: Any) -> bool:
    """Whether all tensors are this mode's own, on the CPU, and no single number that would be promoted."""
    return all(
        type(value) is FakeTensor and value.fake_mode is mode and value.dim() > 0 and value.constant is None
        for value in args
        if isinstance(value, torch.Tensor)
    )


def _wrap(mode: FakeTensorMode, made: Any) -> Any:
    if isinstance(made, tuple):
        return tuple(_wrap(mode, value) for value in made)
    return None if made is None else FakeTensor(mode, made, torch.device("cpu"))


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *rest: Any) -> Any:
    num_channels = x.shape[1] if training else 0
    # CUDA keeps statistics in fp32 whatever the input's type.
    return torch.empty_like(x), _channels(num_channels), _channels(num_channels)


def _batch_norm_backward(grad: Any, x: Any, weight: Any, *rest: Any) -> Any:
    wanted = rest[-1]
    return (
        torch.empty_like(x) if wanted[0] else None,
        _channels(x.shape[1]) if wanted[1] else None,
        _channels(x.shape[1]) if wanted[2] else None,
    )


def _channels(number: int) -> torch.Tensor:
    return torch.empty(number, device="meta", dtype=torch.float32)


def _elementwise(operator: Any) -> Callable[..., Any]:
    def run(one: Any, two: Any, **options: Any) -> Any:
        alike = isinstance(two, torch.Tensor) and (one.shape, one.stride(), one.dtype) == (
            two.shape,
            two.stride(),
            two.dtype,
        )
        return torch.empty_like(one) if alike else operator(one, two, **options)

    return run


BY_HAND: dict[Any, Callable[..., Any]] = {
    aten.add.Tensor: _elementwise(aten.add.Tensor),
    aten.mul.Tensor: _elementwise(aten.mul.Tensor),
    aten.native_batch_norm.default: _batch_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}
"""Operators without rules in C++, whose shapes are known."""
