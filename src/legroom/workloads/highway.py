"""Recurrent highway networks: several layers deep between one character and the next."""

import torch
from torch import nn

from legroom.workloads.highway_walk import TrainedWalk, walk

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
        go = TrainedWalk.apply if torch.is_grad_enabled() else walk  # an evaluation keeps nothing for a gradient
        outputs = go(entering, now, weights.to(entering.dtype), biases[1:].to(entering.dtype))
        return outputs, (outputs[-1:].clone(),)  # a view would keep all outputs alive until the next batch
