"""LAMB: Adam's direction, with a step as long as a share of each layer's weights."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from legroom.training.optimizers import kernels
from legroom.training.optimizers.tables import Table
from legroom.training.optimizers.trust import Bucket, TrustOptimizer, check_range, trust_rates


@final
class Lamb(TrustOptimizer):
    """Layer-wise adaptive moments for batch training.

        m = b1 * m + (1 - b1) * g                 v = b2 * v + (1 - b2) * g^2
        r = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * w
        w = w - lr * |w| / |r| * r                1 in place of |w| / |r| where either is zero

    w, g: one tensor and its gradient; |.|: 2-norm; t: the steps this tensor has taken. In a group with `adapt=False`
    the ratio is 1, which is AdamW.

    >>> weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> weight.grad = torch.tensor([[0.0, 2.0]])
    >>> Lamb([weight], lr=0.1).step()
    >>> [round(value, 4) for value in weight[0].tolist()]
    [3.0, 3.5]

    Source: You et al., "Large Batch Optimization for Deep Learning" (2019), arXiv 1904.00962, algorithm 2 with the
    identity for its phi.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adapt: bool = True,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapt": adapt}
        super().__init__(params, defaults)

    def check(self, group: dict[str, Any]) -> None:
        """Refuses options outside their range."""
        for name in ("lr", "weight_decay", "eps"):
            check_range(name, group[name])
        for beta in group["betas"]:
            check_range("each of betas", beta, high=1.0)

    def new_state(self, param: Tensor) -> dict[str, Any]:
        """Moments of zero. The count is a Python number: a tensor would lose counts where parameters are bfloat16."""
        return {"step": 0, "mean": torch.zeros_like(param), "square": torch.zeros_like(param)}

    def update(self, group: dict[str, Any], bucket: Bucket) -> None:
        """One step by foreach operations; a list of factors costs one small kernel a tensor."""
        params, grads, means, squares = bucket.params, bucket.grads(), bucket.column("mean"), bucket.column("square")
        m_pull, v_pull, m_share, v_share = pulls_and_shares(group, count_step(bucket))
        torch._foreach_lerp_(means, grads, m_pull)
        torch._foreach_lerp_(squares, torch._foreach_mul(grads, grads), v_pull)
        below = torch._foreach_div(squares, v_share)
        torch._foreach_sqrt_(below)
        torch._foreach_add_(below, group["eps"])
        pushes = list(torch._foreach_div(means, m_share))
        torch._foreach_div_(pushes, below)
        torch._foreach_add_(pushes, params, alpha=group["weight_decay"])
        torch._foreach_mul_(pushes, trust_rates(params, pushes, lr=group["lr"]) if group["adapt"] else group["lr"])
        torch._foreach_sub_(params, pushes)

    def launch(self, group: dict[str, Any], bucket: Bucket, table: Table) -> None:
        """One step by at most three kernels. The second pass makes r again from the moments: as quick as to keep it."""
        m_pull, v_pull, m_share, v_share = pulls_and_shares(group, count_step(bucket))
        weights, grads, means, squares = table.columns
        law = m_share, v_share, float(group["eps"]), float(group["weight_decay"])
        table.launch(kernels.lamb_moments, weights, grads, means, squares, table.sums, m_pull, v_pull, *law)
        if group["adapt"]:
            table.set_rates(group["lr"])
        lr, adapt = float(group["lr"]), group["adapt"]
        table.launch(kernels.lamb_update, weights, means, squares, table.rates, lr, *law, adapt=adapt)


def count_step(bucket: Bucket) -> int:
    """Counts one more step of each tensor; in a bucket all have taken as many."""
    for state in bucket.states:
        state["step"] += 1
    return int(bucket.states[0]["step"])


def pulls_and_shares(group: dict[str, Any], num_steps: int) -> tuple[float, float, float, float]:
    """1 - b of both moments, and 1 - b^t."""
    b1, b2 = group["betas"]
    return 1 - b1, 1 - b2, 1 - b1**num_steps, 1 - b2**num_steps
