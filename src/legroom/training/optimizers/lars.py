"""LARS: stochastic gradient descent with momentum and a rate of its own for each layer."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from legroom.errors import UsageError
from legroom.training.optimizers import kernels
from legroom.training.optimizers.tables import Table
from legroom.training.optimizers.trust import Bucket, TrustOptimizer, check_range, trust_rates


@final
class Lars(TrustOptimizer):
    """Layer-wise adaptive rate scaling.

        local = eta * |w| / (|g| + weight_decay * |w| + eps)      1 where |w| or |g| is zero
        v     = momentum * v + lr * local * (g + weight_decay * w)
        w     = w - v                                             nesterov: w - momentum * v - lr * local * (...)

    w, g: one tensor and its gradient; |.|: 2-norm; v: its momentum. In a group with `adapt=False`, local is 1.

    The rate is inside v, as in the paper's algorithm 1: v holds past steps as they were taken, so a change of the rate
    acts on new gradients only. torch.optim.SGD multiplies v by the present rate. Both agree while lr and local stay.

    >>> weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> weight.grad = torch.tensor([[0.0, 2.0]])
    >>> Lars([weight], lr=1.0, eta=0.1).step()
    >>> weight.tolist()
    [[3.0, 3.5]]

    Source: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks" (2017), arXiv 1708.03888.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        eta: float = 0.001,
        eps: float = 0.0,
        nesterov: bool = False,
        adapt: bool = True,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "weight_decay": weight_decay,
                "eta": eta,
                "eps": eps,
                "nesterov": nesterov,
                "adapt": adapt,
            },
        )

    def check(self, group: dict[str, Any]) -> None:
        """Refuses options outside their range."""
        for name in ("lr", "weight_decay", "eta", "eps"):
            check_range(name, group[name])
        check_range("momentum", group["momentum"], high=1.0)
        if group["nesterov"] and not group["momentum"]:
            raise UsageError("nesterov=True with momentum 0 means nothing; give a momentum or leave nesterov out.")

    def new_state(self, param: Tensor) -> dict[str, Any]:
        """A momentum of zero."""
        return {"momentum": torch.zeros_like(param)}

    def update(self, group: dict[str, Any], bucket: Bucket) -> None:
        """One step by foreach operations; a list of factors costs one small kernel a tensor."""
        params, grads, speeds = bucket.params, bucket.grads(), bucket.column("momentum")
        pushes = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
        if group["adapt"]:
            options = {name: group[name] for name in ("lr", "eta", "weight_decay", "eps")}
            torch._foreach_mul_(pushes, trust_rates(params, grads, **options))
        else:
            torch._foreach_mul_(pushes, group["lr"])
        torch._foreach_mul_(speeds, group["momentum"])
        torch._foreach_add_(speeds, pushes)
        if group["nesterov"]:
            torch._foreach_add_(pushes, speeds, alpha=group["momentum"])
        torch._foreach_sub_(params, pushes if group["nesterov"] else speeds)

    def launch(self, group: dict[str, Any], bucket: Bucket, table: Table) -> None:
        """One step by at most three kernels."""
        lr, momentum, weight_decay = float(group["lr"]), float(group["momentum"]), float(group["weight_decay"])
        weights, grads, speeds = table.columns
        if group["adapt"]:
            table.launch(kernels.lars_sums, weights, grads, table.sums)
            table.set_rates(lr, group["eta"], weight_decay, group["eps"])
        table.launch(
            kernels.lars_update,
            weights,
            grads,
            speeds,
            table.rates,
            lr,
            momentum,
            weight_decay,
            adapt=group["adapt"],
            nesterov=group["nesterov"],
        )
