"""Recurrent layers as cuDNN runs them: one reserve kept for the backward pass, one workspace given back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from legroom.questions.memory.child.storage_ledger import taking, unseen, workspace
from legroom.training.torch_internals import FakeTensor, below_autograd

RESERVE = {"lstm": 6, "gru": 7, "rnn_tanh": 2, "rnn_relu": 2}
"""Kind -> elements kept for each layer, direction, step, sample and unit: gates, cell, and the output where another
layer reads it. Exact in all 132 calls measured, on an H200 with cuDNN 9.19: see validation/."""
WORKSPACE = {"lstm": 6, "gru": 5, "rnn_tanh": 5, "rnn_relu": 5}
"""Kind -> elements taken for each direction, step, sample and unit while a call runs, whatever the number of layers."""
SMALL = {"lstm": (192, 15.5), "gru": (192, 15.0), "rnn_tanh": (384, 10.5), "rnn_relu": (384, 10.5)}
"""Kind -> the most units with which torch asks cuDNN for its kernel for small layers, and the elements that one takes
more for each step, sample and unit. It has none for bfloat16, nor for packed sequences. Backward's bounds are lower
(128 and 256), which is left aside: between the two this asks for too much."""
STREAM_BYTES = 8.1 * 2**20
"""Taken for each layer and direction: they run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How one recurrent layer is called, tensors aside."""

    kind: str
    num_states: int
    num_layers: int
    num_directions: int
    train: bool
    batch_first: bool
    packed: bool
    values: Callable[[], Any]
    """Computes outputs and final states where tensors have values."""

    def reserve(self, num_rows: int, num_units: int) -> int:
        """Elements kept for backward; rows are steps times samples. The last layer's output is no part of it."""
        per_unit = RESERVE[self.kind] * self.num_layers - 1
        return per_unit * self.num_directions * num_rows * num_units if self.train else 0

    def workspace(self, x: Any, num_units: int, batch_size: int, num_weights: int) -> float:
        """Bytes taken in forward, and as many in backward.

        Of the peaks of calls that the constants were not fitted to, 1.6 % (median) and 15 % (most) away.
        """
        num_rows = x.numel() // x.shape[-1]
        largest, more = SMALL[self.kind]
        is_small = num_units <= largest and self.train and not self.packed and x.dtype != torch.bfloat16
        per_row = (WORKSPACE[self.kind] * self.num_directions + more * is_small) * num_units
        # Three of WORKSPACE's are copies of the widest sequence: input, or output of a layer before.
        per_row += 3 * max(0, max(x.shape[-1], self.num_directions * num_units) - num_units)
        per_sample = self.num_directions * (8 * self.num_layers + 4) * num_units
        elements = per_row * num_rows + per_sample * batch_size + num_weights
        return float(elements * x.element_size() + STREAM_BYTES * self.num_layers * self.num_directions)


class Recurrence(torch.autograd.Function):
    """One call of `_cudnn_rnn` and of its backward, as far as bytes go; gradients are zeros."""

    @staticmethod
    def forward(ctx: Any, call: Call, x: Any, *rest: Any) -> Any:
        states = rest[: call.num_states]
        num_units, batch_size = states[-1].shape[-1], states[-1].shape[-2]
        num_weights = sum(weight.numel() for weight in rest[call.num_states :])
        ctx.call, ctx.workspace = call, call.workspace(x, num_units, batch_size, num_weights)
        # In the order of _cudnn_rnn: what is kept for long lies behind what is given back.
        with taking(_copy_bytes(x, call.batch_first)):
            out = _sequence(x, call.num_directions * states[0].shape[-1], call.batch_first)
            finals = [torch.zeros_like(state, memory_format=torch.contiguous_format) for state in states]
            with taking(ctx.workspace):
                reserve = x.new_empty(call.reserve(x.numel() // x.shape[-1], num_units))
        if not isinstance(x, FakeTensor):
            with unseen():
                for made, value in zip((out, *finals), call.values(), strict=True):
                    made.copy_(value)
        ctx.save_for_backward(x, out, reserve, *rest)
        return (out, *finals)

    @staticmethod
    def backward(ctx: Any, grad: Any, *grad_finals: Any) -> Any:
        x, _, _, *rest = ctx.saved_tensors
        call = ctx.call
        with taking(_copy_bytes(x, call.batch_first)), taking(_copy_bytes(grad, call.batch_first)):
            grad_x = _sequence(x, x.shape[-1], call.batch_first).zero_()
            grad_states = [torch.zeros_like(state) for state in rest[: call.num_states]]
            workspace(ctx.workspace)
        # All weights' gradients are views of one buffer, as cuDNN writes them.
        sizes = [weight.numel() for weight in rest[call.num_states :]]
        with taking(_copy_bytes(x, call.batch_first)):
            buffer = x.new_zeros(sum(sizes))
            workspace(ctx.workspace)
        grads = [piece.view(w.shape) for piece, w in zip(buffer.split(sizes), rest[call.num_states :], strict=True)]
        return (None, grad_x, *grad_states, *grads)


def _sequence(like: Any, width: int, batch_first: bool) -> Any:
    """An empty sequence; cuDNN writes time first, and a batch-first caller gets a view of that."""
    if not batch_first:
        return like.new_empty((*like.shape[:-1], width))
    return like.new_empty((like.shape[1], like.shape[0], width)).transpose(0, 1)


def _copy_bytes(tensor: Any, batch_first: bool) -> int:
    """What cuDNN's time-first copy of a batch-first tensor takes."""
    if not batch_first or tensor.transpose(0, 1).is_contiguous():
        return 0
    return int(tensor.numel() * tensor.element_size())


def _run(kind: str, op: Any, batch_sizes: Any, x: Any, hx: Any, weights: Any, options: tuple[Any, ...]) -> Any:
    """options: has_biases, num_layers, dropout, train, bidirectional, and batch_first unless the input is packed."""
    states = list(hx) if kind == "lstm" else [hx]
    head = (x,) if batch_sizes is None else (x, batch_sizes)

    def values() -> Any:
        # Below autograd lies torch's own implementation, whatever this process registered above it.
        with below_autograd():
            return op(*head, hx, weights, *options)

    call = Call(
        kind=kind,
        num_states=len(states),
        num_layers=options[1],
        num_directions=2 if options[4] else 1,
        train=options[3],
        batch_first=len(options) > 5 and bool(options[5]),
        packed=batch_sizes is not None,
        values=values,
    )
    return Recurrence.apply(call, x, *states, *weights)  # type: ignore[no-untyped-call]


def _padded(kind: str, op: Any) -> Callable[..., Any]:
    return lambda x, hx, weights, *options: _run(kind, op, None, x, hx, weights, options)


def _packed(kind: str, op: Any) -> Callable[..., Any]:
    return lambda x, batch_sizes, hx, weights, *options: _run(kind, op, batch_sizes, x, hx, weights, options)


def _in_half(op: Any) -> Callable[..., Any]:
    """Autocast: cuDNN takes input, states and one flat copy of the weights in half precision."""

    def cast(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [cast(item) for item in value]
        is_float = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return value.to(torch.get_autocast_dtype("cpu")) if is_float else value

    def run(*args: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return op(*(cast(value) for value in args))

    return run


def register(library: Any) -> None:
    """Put these rules in the dispatcher, for padded and packed input."""
    for kind in RESERVE:
        overloads = getattr(torch.ops.aten, kind)
        library.impl(f"{kind}.input", _padded(kind, overloads.input), "AutogradCPU")
        library.impl(f"{kind}.data", _packed(kind, overloads.data), "AutogradCPU")
        library.impl(f"{kind}.input", _in_half(overloads.input), "AutocastCPU")
        library.impl(f"{kind}.data", _in_half(overloads.data), "AutocastCPU")
