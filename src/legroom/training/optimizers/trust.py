"""What LARS and LAMB share: groups of parameters, checks, and a rate of its own for each tensor without a wait."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from legroom.errors import UsageError
from legroom.training.optimizers.tables import Table, takes


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
    """Parameters of one group, device, type and count of steps; with a table where Triton's kernels can take them."""

    params: list[Tensor]
    states: list[dict[str, Any]]
    table: Table | None

    def grads(self) -> list[Tensor]:
        """Their gradients."""
        return [grad for param in self.params if (grad := param.grad) is not None]

    def column(self, name: str) -> list[Tensor]:
        """What the state of each holds under this name."""
        return [state[name] for state in self.states]


def trust_rates(
    params: list[Tensor],
    others: list[Tensor],
    *,
    lr: float,
    eta: float = 1.0,
    weight_decay: float = 0.0,
    eps: float = 0.0,
) -> list[Tensor]:
    """lr * eta * |w| / (|x| + weight_decay * |w| + eps) for each tensor w and its x; lr where either norm is zero.

    Norms are float32 at least; nothing waits for the device.
    """
    dtype = torch.promote_types(params[0].dtype, torch.float32)
    weight_norms, other_norms = torch.stack(torch._foreach_norm([*params, *others], 2, dtype)).chunk(2)
    ratios = eta * weight_norms / (other_norms + weight_decay * weight_norms + eps)
    return list((torch.where(torch.minimum(weight_norms, other_norms) > 0, ratios, 1.0) * lr).unbind())


class TrustOptimizer(torch.optim.Optimizer, abc.ABC):
    """The step LARS and LAMB share; a subclass says what one bucket does.

    Nothing here waits for the device.
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
        """One step of the parameters of a bucket, each of which has a gradient, by torch's foreach operations."""

    @abc.abstractmethod
    def launch(self, group: dict[str, Any], bucket: Bucket, table: Table) -> None:
        """The same step by Triton's kernels."""

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
                if bucket.table is None:
                    self.update(group, bucket)
                else:
                    bucket.table.refresh()
                    self.launch(group, bucket, bucket.table)
                    # Autograd must see that they changed: it refuses a backward pass through older values.
                    torch.autograd.graph.increment_version(bucket.params)
        return loss

    def _buckets_of(self, index: int, group: dict[str, Any]) -> list[Bucket]:
        params = [param for param in group["params"] if param.grad is not None]
        # Parameters may be frozen, or moved to another type or layout, and states cleared between two steps.
        key = [id(param) for param in params], [param.data_ptr() for param in params]
        known, buckets = self._buckets.get(index, (None, []))
        if known != key or any(self.state.get(one.params[0]) is not one.states[0] for one in buckets):
            buckets = self._make_buckets(params)
            self._buckets[index] = key, buckets
        return buckets

    def _make_buckets(self, params: list[Tensor]) -> list[Bucket]:
        grouped: dict[Any, tuple[list[Tensor], list[dict[str, Any]]]] = {}
        for param in params:
            check_gradient(param)
            state = self.state[param]
            state.update(state or self.new_state(param))
            key = takes(param), param.device, param.dtype, state.get("step")
            members, states = grouped.setdefault(key, ([], []))
            members.append(param)
            states.append(state)
        return [
            Bucket(members, states, Table(members, states) if key[0] else None)
            for key, (members, states) in grouped.items()
        ]


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
