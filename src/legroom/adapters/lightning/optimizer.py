"""Takes the optimizer out of what configure_optimizers returned, and sets its rate."""

from collections.abc import Mapping
from typing import Any

import torch

from legroom.adapters.lightning.module import OWN_STEP
from legroom.errors import JobRaised


def configured_optimizer(module: Any, learning_rate: float) -> torch.optim.Optimizer:
    """The module's own optimizer with its highest rate set to `learning_rate`, the groups' ratios kept."""
    optimizer = _single_optimizer(module)
    peak = _peak_rate(optimizer)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * (_configured_rate(group) / peak) if peak > 0 else learning_rate
        # A scheduler made on this optimizer later would take these for its own.
        group.pop("initial_lr", None)
        group.pop("max_lr", None)
    return optimizer


def rate_of_today(module: Any) -> float:
    """The highest rate any group is configured to reach."""
    rate = _peak_rate(_single_optimizer(module))
    if not rate > 0:
        raise JobRaised(
            f"configure_optimizers gives a learning rate of {rate}; legroom needs today's rate, above 0. "
            "Pass it as from_lightning(learning_rate=...)"
        )
    return rate


def _single_optimizer(module: Any) -> torch.optim.Optimizer:
    found = _optimizers_in(module.configure_optimizers())
    if len(found) != 1:
        name = type(module).__name__
        raise JobRaised(f"configure_optimizers of {name} gives {len(found)} optimizers; legroom needs one. {OWN_STEP}")
    return found[0]  # type: ignore[no-any-return]


def _optimizers_in(configured: Any) -> list[Any]:
    if isinstance(configured, Mapping):
        return [configured["optimizer"]]
    if isinstance(configured, list | tuple):
        # ([optimizers], [schedulers]) has lists inside; a list of optimizers, or of dicts, has none.
        inner = configured[0] if configured and isinstance(configured[0], list) else configured
        return [optimizer for entry in inner for optimizer in _optimizers_in(entry)]
    return [] if configured is None else [configured]


def _peak_rate(optimizer: torch.optim.Optimizer) -> float:
    return max(_configured_rate(group) for group in optimizer.param_groups)


def _configured_rate(group: Mapping[str, Any]) -> float:
    # A scheduler lowers "lr" the moment it is made (warm-up starts near 0) and keeps here what it was told.
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))
