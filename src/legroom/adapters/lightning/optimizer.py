"""Takes the optimizer out of what configure_optimizers returned, and sets its rate."""

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from legroom.adapters.lightning.module import OWN_STEP
from legroom.errors import JobRaised

MODULES: "weakref.WeakKeyDictionary[torch.optim.Optimizer, weakref.ref[Any]]" = weakref.WeakKeyDictionary()
"""Whose optimizer it is: its schedulers are made by the same module."""


def configured_optimizer(module: Any, learning_rate: float) -> torch.optim.Optimizer:
    """The module's own optimizer with its highest rate set to `learning_rate`, the groups' ratios kept."""
    optimizer = single_optimizer(module, module.configure_optimizers())
    MODULES[optimizer] = weakref.ref(module)
    peak = peak_rate(optimizer)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * (_configured_rate(group) / peak) if peak > 0 else learning_rate
        # A scheduler made on this optimizer later would take these for its own.
        group.pop("initial_lr", None)
        group.pop("max_lr", None)
        if "max_momentum" in group:  # OneCycleLR and CyclicLR set the momentum too, the moment they are made
            group.update({name: optimizer.defaults[name] for name in ("momentum", "betas") if name in group})
    return optimizer


def rate_of_today(optimizer: torch.optim.Optimizer) -> float:
    """The highest rate any group is configured to reach."""
    rate = peak_rate(optimizer)
    if not rate > 0:
        raise JobRaised(
            f"configure_optimizers gives a learning rate of {rate}; legroom needs today's rate, above 0. "
            "Pass it as from_lightning(learning_rate=...)"
        )
    return rate


def single_optimizer(module: Any, configured: Any) -> torch.optim.Optimizer:
    """The one optimizer in what the module's configure_optimizers returned."""
    found = _optimizers_in(configured)
    if len(found) != 1:
        name = type(module).__name__
        raise JobRaised(f"configure_optimizers of {name} gives {len(found)} optimizers; legroom needs one. {OWN_STEP}")
    return found[0]  # type: ignore[no-any-return]


def schedulers_in(configured: Any) -> list[dict[str, Any]]:
    """Every scheduler in what configure_optimizers returned, as Lightning's own dictionary of it."""
    if isinstance(configured, Mapping):
        entry = configured.get("lr_scheduler")
        return [] if entry is None else [_as_dict(entry, configured.get("monitor"))]
    if not isinstance(configured, list | tuple) or not configured:
        return []
    if isinstance(configured[0], list | tuple):
        return [_as_dict(entry) for entry in (configured[1] if len(configured) > 1 else [])]
    return [scheduler for entry in configured for scheduler in schedulers_in(entry)]


def _as_dict(entry: Any, monitor: str | None = None) -> dict[str, Any]:
    # Lightning steps after each epoch where nothing else is said.
    given = dict(entry) if isinstance(entry, Mapping) else {"scheduler": entry}
    return {"interval": "epoch", "frequency": 1, "monitor": monitor} | given


def _optimizers_in(configured: Any) -> list[Any]:
    if isinstance(configured, Mapping):
        return [configured["optimizer"]]
    if isinstance(configured, list | tuple):
        # ([optimizers], [schedulers]) has lists inside; a list of optimizers, or of dicts, has none.
        inner = configured[0] if configured and isinstance(configured[0], list | tuple) else configured
        return [optimizer for entry in inner for optimizer in _optimizers_in(entry)]
    return [] if configured is None else [configured]


def peak_rate(optimizer: torch.optim.Optimizer) -> float:
    """The highest rate that any group was given."""
    return max(_configured_rate(group) for group in optimizer.param_groups)


def _configured_rate(group: Mapping[str, Any]) -> float:
    # A scheduler lowers "lr" the moment it is made (warm-up starts near 0) and keeps here what it was told.
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))
