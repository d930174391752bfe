"""The optimizer that configure_optimizers returned, at the rate a run names, and its schedulers as under a Trainer."""

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from legroom.adapters.lightning.module import OWN_STEP
from legroom.adapters.lightning.package import base_of, overrides
from legroom.errors import JobRaised, UsageError
from legroom.job import RunLength
from legroom.training.torch_internals import mark_stepped

MODULES: "weakref.WeakKeyDictionary[torch.optim.Optimizer, weakref.ref[Any]]" = weakref.WeakKeyDictionary()
"""Whose optimizer it is: its schedulers are made by the same module."""
NOT_MOVED = ("params", "lr", "fused", "foreach", "capturable", "differentiable")
"""Of a parameter group: what no scheduler moves, and the rate, which is scaled."""


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


def configured_schedulers(optimizer: torch.optim.Optimizer, length: RunLength) -> list[dict[str, Any]]:
    """The module's schedulers, made for a run of that length and bound to this optimizer."""
    module = MODULES[optimizer]()
    assert module is not None, "the loop holds the module that it trains"
    module.trainer.take(length)
    # Schedulers are made with the optimizer they move, and this one was made before the length was known. So the module
    # makes both once more; that pair moves, and its rates are copied.
    with torch.random.fork_rng(devices=[]):
        configured = module.configure_optimizers()
    entries = schedulers_in(configured)
    _refuse_unknown(module, entries)
    source = single_optimizer(module, configured)
    scale = peak_rate(optimizer) / (peak_rate(source) or 1.0)
    return [entry | {"scheduler": Mirrored(entry["scheduler"], source, optimizer, scale)} for entry in entries]


class Mirrored:
    """A scheduler whose rates, times `scale`, are copied to another optimizer, with whatever else it moves."""

    def __init__(
        self, scheduler: Any, source: torch.optim.Optimizer, target: torch.optim.Optimizer, scale: float
    ) -> None:
        self.scheduler, self.source, self.target, self.scale = scheduler, source, target, scale
        mark_stepped(source)  # it never goes itself
        self._copy()

    def step(self) -> None:
        """To the next rates."""
        self.scheduler.step()
        self._copy()

    def state_dict(self) -> dict[str, Any]:
        """Of the scheduler, and the groups that many schedulers work out the next rate from."""
        return {"scheduler": self.scheduler.state_dict(), "groups": self.source.state_dict()["param_groups"]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.source.load_state_dict({"state": {}, "param_groups": state["groups"]})
        self.scheduler.load_state_dict(state["scheduler"])
        self._copy()

    def _copy(self) -> None:
        for ours, theirs in zip(self.target.param_groups, self.source.param_groups, strict=True):
            rate = theirs["lr"] * self.scale
            if isinstance(ours["lr"], torch.Tensor):
                ours["lr"].fill_(rate)
            else:
                ours["lr"] = float(rate)
            ours.update({name: theirs[name] for name in ours if name not in NOT_MOVED and name in theirs})


def _refuse_unknown(module: Any, entries: list[dict[str, Any]]) -> None:
    """Refuse what the run would do otherwise than a Trainer does."""
    name = type(module).__name__
    other = "Name a schedule with --schedule instead, such as --schedule cosine or --schedule constant"
    for entry in entries:
        if isinstance(entry["scheduler"], ReduceLROnPlateau) or entry.get("reduce_on_plateau"):
            metric = f" {entry['monitor']!r}" if entry["monitor"] else ""
            raise UsageError(
                f"configure_optimizers of {name} has a {type(entry['scheduler']).__name__}, which waits for the "
                f"metric{metric}; legroom's loop moves the rate by updates and epochs alone. {other}"
            )
    if overrides(module, "lr_scheduler_step", base_of(module, "module()", "LightningModule")):
        raise UsageError(f"{name} has its own lr_scheduler_step, which legroom's loop would leave out. {other}")
