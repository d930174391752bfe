"""LAMB: Adam's direction, with a step as long as a share of each layer's weights."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from legroom.training.trust import Bucket, TrustOptimizer, check_range, laid_out_like, norms, one_where_zero


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
        """One step. Fused AdamW at rate 1 takes x to (1 - decay) * x - direction; with decay 1 + weight_decay it takes
        a copy of w to -r in one pass over the moments.
        """
        params, views = bucket.params, bucket.views
        if not group["adapt"]:
            self._adamw(group, params, params, lr=group["lr"], weight_decay=group["weight_decay"])
            return
        torch._foreach_copy_(views, params)
        self._adamw(group, params, views, lr=1.0, weight_decay=1.0 + group["weight_decay"])
        weight_norms, update_norms = norms([*params, *views]).chunk(2)
        ratios = one_where_zero(weight_norms / update_norms, weight_norms, update_norms)
        bucket.multiply(ratios * group["lr"])
        torch._foreach_add_(params, views)

    def _adamw(
        self, group: dict[str, Any], params: list[Tensor], targets: list[Tensor], *, lr: float, weight_decay: float
    ) -> None:
        states = [self.state[param] for param in params]
        for state in states:
            state["step"] += 1
        counts = {
            num: torch.full((), num, dtype=torch.float32, device=params[0].device)
            for num in {state["step"] for state in states}
        }
        torch._fused_adamw_(
            targets,
            [laid_out_like(param.grad, param) for param in params if param.grad is not None],
            [state["mean"] for state in states],
            [state["square"] for state in states],
            [],
            [counts[state["step"]] for state in states],
            lr=lr,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=weight_decay,
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )
