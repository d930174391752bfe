"""Recurrent highway networks: several layers deep between one character and the next, with a gradient of few kernels.

Each of a batch's thousands of depths is a small kernel. Autograd launches 19 a depth, forwards and backwards, ours 7:
what does not depend on the depth before (slopes of the gates, gradients of the weights) is computed for all depths of a
step at once.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

TRANSFORM_BIAS = -2.0
"""Gates start mostly closed, so that at first the state passes through all depths (Zilly et al. 2017)."""


class RecurrentHighway(nn.Module):
    """One layer of recurrence depth L (Zilly et al. 2017, Recurrent Highway Networks, arXiv:1607.03474, eq. 6-9).

    At each step, from s_0 = the last output, for l = 1 .. L, the input entering at l = 1 only:

        h = tanh(W_H x + R_H s_(l-1) + b_H)     t = sigmoid(W_T x + R_T s_(l-1) + b_T)
        s_l = h * t + s_(l-1) * (1 - t)

    Called as an LSTM over (steps, batch, inputs); its state is a tuple of one tensor.
    """

    def __init__(self, num_inputs: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.enter = nn.Linear(num_inputs, 2 * hidden, bias=False)
        self.deepen = nn.ModuleList(nn.Linear(hidden, 2 * hidden) for _ in range(depth))
        for layer in self.deepen:
            nn.init.constant_(layer.bias[hidden:], TRANSFORM_BIAS)  # type: ignore[index]

    def forward(
        self, inputs: torch.Tensor, state: tuple[torch.Tensor, ...] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        now = state[0][0] if state else inputs.new_zeros(inputs.shape[1], self.hidden)
        # One product for all steps, with the bias of the first depth, which it enters.
        entering = nn.functional.linear(inputs, self.enter.weight, self.deepen[0].bias)  # type: ignore[arg-type]
        weights, biases = (torch.stack([getattr(layer, name) for layer in self.deepen]) for name in ("weight", "bias"))
        run = RunHighway.apply if torch.is_grad_enabled() else run_highway  # an evaluation keeps nothing for a gradient
        outputs = run(entering, now, weights.to(entering.dtype), biases[1:].to(entering.dtype))
        return outputs, (outputs[-1:].clone(),)  # a view would keep all outputs alive until the next batch


def run_highway(
    entering: torch.Tensor,
    state: torch.Tensor,
    weights: torch.Tensor,
    biases: torch.Tensor,
    kept: list[torch.Tensor] | None = None,
) -> torch.Tensor:
    """The state after each step, of what enters (steps, batch, 2 units), a first state, and each depth's weights.

    Biases are those of all depths but the first, whose bias is in what enters. States keep their own type: they are
    summed over thousands of depths, too many for bf16. Products have the type of the weights. `kept` takes of each step
    the states before, h and t of its depths.
    """
    now, outputs, turned, others = state, [], weights.mT.unbind(), biases.unbind()
    for entered in entering.to(weights.dtype).unbind():
        seen = []
        for bias, weight in zip((entered, *others), turned, strict=True):
            gates = torch.addmm(bias, now.to(weight.dtype), weight).to(now.dtype)
            told, opened = gates.chunk(2, -1)
            told, opened = told.tanh(), opened.sigmoid()
            seen.append((now, told, opened))
            now = torch.lerp(now, told, opened)
        outputs.append(now)
        if kept is not None:
            kept += [torch.stack(part) for part in zip(*seen, strict=True)]
    return torch.stack(outputs)


class RunHighway(torch.autograd.Function):
    """`run_highway`, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, entering: torch.Tensor, state: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor
    ) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        outputs = run_highway(entering, state, weights, biases, kept)
        ctx.save_for_backward(weights, *kept)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weights, *kept = ctx.saved_tensors
        depth, num_gates, units = weights.shape
        grad, kind = torch.zeros_like(kept[0][0]), weights.dtype
        grad_weights = torch.zeros_like(weights, dtype=grad.dtype)
        grad_biases = grad.new_zeros(depth - 1, num_gates)
        grad_entering = grad.new_empty(len(grad_outputs), len(grad), num_gates, dtype=kind)
        for step in reversed(range(len(grad_outputs))):
            before, told, opened = kept[3 * step : 3 * step + 3]
            flows = slopes(before, told, opened)
            grad = grad + grad_outputs[step]
            for flow, weight in zip(reversed(flows.unbind()), reversed(weights.unbind()), strict=True):
                flow.view(-1, 3, units).mul_(grad.unsqueeze(1))
                grad = _add_product(flow[:, num_gates:], flow[:, :num_gates], weight)
            at_gates = flows[..., :num_gates]
            grad_weights += at_gates.mT.to(kind) @ before.to(kind)
            grad_biases += at_gates[1:].sum(1)
            grad_entering[step] = at_gates[0]
        return grad_entering, grad, grad_weights, grad_biases


def slopes(before: torch.Tensor, told: torch.Tensor, opened: torch.Tensor) -> torch.Tensor:
    """Of s' = h t + s (1 - t), all depths of a step at once, side by side: by h's and t's sums, and by s directly."""
    by_told = torch.ops.aten.tanh_backward(opened, told)  # t (1 - h^2)
    by_opened = torch.ops.aten.sigmoid_backward(told - before, opened)  # (h - s) t (1 - t)
    return torch.cat([by_told, by_opened, 1 - opened], -1)


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """total + left @ right, the product in the type of the right."""
    if left.dtype == right.dtype:
        return torch.addmm(total, left, right)
    return total + left.to(right.dtype) @ right
