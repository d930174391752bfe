"""The walk through a recurrent highway, with a gradient of few kernels: each of its thousands of depths is a small one.

Autograd launches 19 kernels a depth, forwards and backwards, this walk 7: what does not depend on the depth before
(slopes of the gates, gradients of the weights) is computed for all depths of a step at once.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable


def walk(
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


class TrainedWalk(torch.autograd.Function):
    """The walk, and its gradient."""

    @staticmethod
    def forward(
        ctx: Any, entering: torch.Tensor, state: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor
    ) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        outputs = walk(entering, state, weights, biases, kept)
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
