"""Lets the schedulers of configure_optimizers move the rates of a run as they do under a Trainer."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from legroom.adapters.lightning.optimizer import MODULES, peak_rate, schedulers_in, single_optimizer
from legroom.adapters.lightning.package import base_of, overrides
from legroom.errors import UsageError
from legroom.job import RunLength

NOT_MOVED = ("params", "lr", "fused", "foreach", "capturable", "differentiable")
"""Of a parameter group: what no scheduler moves, and the rate, which is scaled."""


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
        # Torch warns where a scheduler goes before its optimizer; this optimizer never goes.
        source._opt_called = True  # type: ignore[attr-defined]
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
