"""LARS: stochastic gradient descent with momentum and a rate of its own for each layer."""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from legroom.errors import UsageError
from legroom.training.trust import Bucket, TrustOptimizer, check_range, norms, one_where_zero


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
        """One step: the block takes lr * local * (g + weight_decay * w), which fused SGD then applies."""
        params, views = bucket.params, bucket.views
        grads = [grad for param in params if (grad := param.grad) is not None]
        torch._foreach_copy_(views, grads)
        if group["weight_decay"]:
            torch._foreach_add_(views, params, alpha=group["weight_decay"])
        if group["adapt"]:
            bucket.multiply(local_rates(params, grads, group) * group["lr"])
        else:
            bucket.block.mul_(group["lr"])
        self._descend(group, params, views)

    def _descend(self, group: dict[str, Any], params: list[Tensor], pushes: list[Tensor]) -> None:
        momentum, nesterov = group["momentum"], group["nesterov"]
        speeds = [self.state[param]["momentum"] for param in params] if momentum else []
        if params[0].device.type == "cpu" and params[0].dtype in (torch.bfloat16, torch.float16):
            descend_by_foreach(params, pushes, speeds, momentum, nesterov)
            return
        torch._fused_sgd_(
            params,
            pushes,
            speeds,
            weight_decay=0.0,
            momentum=momentum,
            lr=1.0,
            dampening=0.0,
            nesterov=nesterov,
            maximize=False,
            is_first_step=False,
        )


def descend_by_foreach(
    params: list[Tensor], pushes: list[Tensor], speeds: list[Tensor], momentum: float, nesterov: bool
) -> None:
    """What fused SGD does, for 16-bit parameters on the CPU: there torch 2.13's kernel leaves them as they were."""
    if speeds:
        torch._foreach_mul_(speeds, momentum)
        torch._foreach_add_(speeds, pushes)
        if nesterov:
            torch._foreach_add_(pushes, speeds, alpha=momentum)
        else:
            pushes = speeds
    torch._foreach_sub_(params, pushes)


def local_rates(params: list[Tensor], grads: list[Tensor], group: dict[str, Any]) -> Tensor:
    """The factor of each tensor on the rate, as one vector."""
    weight_norms, grad_norms = norms([*params, *grads]).chunk(2)
    below = grad_norms + weight_norms * group["weight_decay"] + group["eps"]
    return one_where_zero(group["eta"] * weight_norms / below, weight_norms, grad_norms)
