"""What LARS and LAMB share: groups of parameters, checks, and a rate of its own for each tensor without a wait."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from legroom.errors import UsageError

ROW_LENGTH = 256


def split_parameters(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: weights that decay and adapt; biases and norms (at most one dimension) that do neither.

    >>> groups = split_parameters(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), 1e-4)
    >>> [(len(group["params"]), group["weight_decay"], group["adapt"]) for group in groups]
    [(1, 0.0001, True), (3, 0.0, False)]
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    weights = [parameter for parameter in trained if parameter.ndim > 1]
    others = [parameter for parameter in trained if parameter.ndim <= 1]
    groups = [
        {"params": weights, "weight_decay": weight_decay, "adapt": True},
        {"params": others, "weight_decay": 0.0, "adapt": False},
    ]
    return [group for group in groups if group["params"]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """Parameters of one group, device and dtype, with room for one update of each in a single block.

    A foreach operation takes a list of 0-dim factors only by one kernel a tensor, as shapes differ. In the block each
    tensor starts on a row of its own, so one broadcast over rows multiplies every tensor by its own factor; views with
    the shape and strides of the parameters let the fused kernels read and write the same memory.
    """

    params: list[Tensor]
    block: Tensor
    views: list[Tensor]
    tensor_of_row: Tensor

    def multiply(self, factors: Tensor) -> None:
        """Multiplies each tensor of the block by its own factor."""
        self.block.mul_(factors.index_select(0, self.tensor_of_row).unsqueeze(1))


def make_bucket(params: list[Tensor]) -> Bucket:
    """An empty block for these parameters."""
    num_rows = [math.ceil(param.numel() / ROW_LENGTH) for param in params]
    first = params[0]
    block = torch.zeros(sum(num_rows), ROW_LENGTH, dtype=first.dtype, device=first.device)
    views, row = [], 0
    for param, num in zip(params, num_rows, strict=True):
        views.append(block.as_strided(param.shape, param.stride(), row * ROW_LENGTH))
        row += num
    tensor_of_row = torch.arange(len(params)).repeat_interleave(torch.tensor(num_rows))
    return Bucket(params, block, views, tensor_of_row.to(first.device))


def norms(tensors: list[Tensor]) -> Tensor:
    """The 2-norm of each tensor, as one vector on their device; at least in float32."""
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return torch.stack(torch._foreach_norm(tensors, 2, dtype))


def one_where_zero(ratios: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The ratios, with 1 where either of the norms they were made from is zero."""
    return torch.where(torch.minimum(first, second) > 0, ratios, 1.0)


def laid_out_like(tensor: Tensor, param: Tensor) -> Tensor:
    """The tensor with the strides of the parameter; fused kernels walk raw memory, on the CPU without a check."""
    if tensor.stride() == param.stride():
        return tensor
    # A dimension of size 1 is never walked; autograd leaves any stride there (1x1 convolutions in channels_last).
    sizes = zip(param.shape, tensor.stride(), param.stride(), strict=True)
    if all(size == 1 or mine == other for size, mine, other in sizes):
        return tensor
    return torch.empty_like(param).copy_(tensor)


class TrustOptimizer(torch.optim.Optimizer, abc.ABC):
    """The step LARS and LAMB share; a subclass says what one bucket does.

    Nothing here waits for the device, and the number of kernels does not grow with the number of tensors.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self._buckets: dict[int, tuple[Any, list[Bucket]]] = {}
        super().__init__(params, defaults)

    @abc.abstractmethod
    def check(self, group: dict[str, Any]) -> None:
        """Refuses options outside their range."""

    @abc.abstractmethod
    def new_state(self, param: Tensor) -> dict[str, Any]:
        """What is kept of one parameter before its first step."""

    @abc.abstractmethod
    def update(self, group: dict[str, Any], bucket: Bucket) -> None:
        """One step of the parameters of a bucket; each has a gradient."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; options it does not name are the optimizer's."""
        self.check({**self.defaults, **param_group})
        super().add_param_group(param_group)
        for param in self.param_groups[-1]["params"]:
            check_parameter(param)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._buckets = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter that has a gradient; returns what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for index, group in enumerate(self.param_groups):
            self.check(group)
            for bucket in self._buckets_of(index, group):
                self.update(group, bucket)
        return loss

    def _buckets_of(self, index: int, group: dict[str, Any]) -> list[Bucket]:
        params = [param for param in group["params"] if param.grad is not None]
        # Parameters may be frozen, or change to channels_last, between two steps.
        key = [(id(param), param.stride()) for param in params]
        known, buckets = self._buckets.get(index, (None, []))
        if known != key:
            buckets = self._make_buckets(params)
            self._buckets[index] = key, buckets
        return buckets

    def _make_buckets(self, params: list[Tensor]) -> list[Bucket]:
        for param in params:
            check_gradient(param)
            state = self.state[param] or self.new_state(param)
            self.state[param] = {
                name: laid_out_like(value, param) if isinstance(value, Tensor) else value
                for name, value in state.items()
            }
        if not params:
            return []
        grouped = _group_tensors_by_device_and_dtype([params])  # type: ignore[list-item]
        return [make_bucket([p for p in lists[0] if p is not None]) for lists, _ in grouped.values()]


def check_parameter(param: Tensor) -> None:
    """Refuses what the kernels cannot walk."""
    if not param.is_floating_point():
        raise UsageError(f"A parameter has type {param.dtype}; LARS and LAMB train real floating-point parameters.")
    # empty_like keeps strides only where memory has neither gaps nor overlaps.
    if torch.empty_like(param, device="meta").stride() != param.stride():
        raise UsageError(
            f"A parameter of shape {tuple(param.shape)} has gaps or overlaps in memory (strides {param.stride()}); "
            "make it nn.Parameter(tensor.contiguous())."
        )


def check_gradient(param: Tensor) -> None:
    """Refuses sparse gradients."""
    if param.grad is not None and param.grad.layout != torch.strided:
        raise UsageError(
            f"A parameter of shape {tuple(param.shape)} has a sparse gradient; LARS and LAMB need dense ones. "
            "Build nn.Embedding with sparse=False, or give this parameter to torch.optim.SparseAdam."
        )


def check_range(name: str, value: Any, low: float = 0.0, high: float = math.inf) -> None:
    """Refuses a value that is no number in [low, high)."""
    if not isinstance(value, Real) or not low <= float(value) < high:
        raise UsageError(f"{name} is {value!r}; it must be a number of at least {low:g} and below {high:g}.")
