"""Stands in for the Trainer: answers what modules commonly ask of it, and keeps the metric that is the job's score."""

import math
import types
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch

from legroom.errors import JobRaised, UsageError
from legroom.job import Batch, RunLength, Score, Settings
from legroom.training.evaluation import evaluation_mode


class StandInTrainer(types.SimpleNamespace):
    """Made anew for each module, for one device; what it does not know is an AttributeError, so that hasattr tells."""

    def __init__(self, settings: Settings, num_samples: int | None, datamodule: Any, score: str | None = None) -> None:
        super().__init__(
            max_steps=-1,
            current_epoch=0,
            global_step=0,
            world_size=1,
            num_devices=1,
            num_nodes=1,
            global_rank=0,
            local_rank=0,
            is_global_zero=True,
            training=True,
            validating=False,
            sanity_checking=False,
            fast_dev_run=False,
            callback_metrics={},
            datamodule=datamodule,
            log=Log(score),
        )
        num_batches = None if num_samples is None else math.ceil(num_samples / settings.batch_size)
        length = RunLength(
            num_steps=None,
            num_epochs=settings.num_epochs,
            batches_per_epoch=num_batches,
            accumulation_steps=settings.accumulation_steps,
        )
        num_steps = None if length.steps_per_epoch is None else length.steps_per_epoch * settings.num_epochs
        self.take(replace(length, num_steps=num_steps))

    def take(self, length: RunLength) -> None:
        """Answer as the Trainer of a run of that length would."""
        self.max_epochs, self.accumulate_grad_batches = length.num_epochs, length.accumulation_steps
        if length.in_steps and length.num_steps is not None:
            self.max_steps = length.num_steps
        if length.batches_per_epoch is not None:
            self.num_training_batches = length.batches_per_epoch
        if length.num_steps is not None:
            self.estimated_stepping_batches = length.num_steps

    def follow(self, num_updates: int, epoch: int) -> None:
        """Answer as a Trainer that is so far; the module's own global_step and current_epoch are read off here."""
        self.global_step, self.current_epoch = num_updates, epoch

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"legroom runs the module without a Trainer, so there is no trainer.{name}. "
            "Ask for it in a hook of the Trainer's loop, or only where hasattr(self.trainer, ...) says it is there"
        )


class Log:
    """What self.log was given over one pass of validation: the wanted value is kept, of the others only the names."""

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.num_rows = 1
        """Of the batch that is evaluated; what a mean is weighted by."""
        self.is_open = False
        """Whether a step or hook of validation runs: what is logged elsewhere is no score."""
        self.in_pass = False
        self.clear()

    def clear(self) -> None:
        """Begin a pass."""
        self.names: dict[str, None] = {}
        self.metrics: dict[int, Any] = {}
        """Of torchmetrics, by identity: they add up batches by themselves."""
        self.metric: Any = None
        self.total: Any = None
        self.weight: Any = 0.0
        self.reduction = "mean"

    def log(self, name: str, value: Any, *rest: Any, **more: Any) -> None:
        """In place of self.log, which warns or raises where no Trainer keeps the value."""
        if not self.is_open or self.wanted is None:
            return
        self.names[name] = None
        if hasattr(value, "compute") and hasattr(value, "reset"):
            self.metrics[id(value)] = value
            self.metric = value if name == self.wanted else self.metric
        elif name == self.wanted:
            self._add(value, more.get("batch_size") or self.num_rows, more.get("reduce_fx", "mean"))

    def log_dict(self, dictionary: Mapping[str, Any], *rest: Any, **more: Any) -> None:
        """In place of self.log_dict."""
        # A collection of metrics hands out copies unless it is asked not to; a copy cannot be reset.
        is_collection = hasattr(dictionary, "compute")
        items: Any = dictionary.items(keep_base=False, copy_state=False) if is_collection else dictionary.items()  # type: ignore[call-arg]
        for name, value in items:
            self.log(name, value, **more)

    def take(self) -> float | None:
        """The wanted value over the pass, which ends it; None where it was never logged."""
        value = self.metric.compute() if self.metric is not None else self.total
        if value is not None and self.metric is None and self.reduction == "mean":
            value = value / self.weight
        for metric in self.metrics.values():
            metric.reset()
        self.clear()
        self.in_pass = False
        return None if value is None else float(value)

    def _add(self, value: Any, num_rows: int, reduction: Any) -> None:
        self.reduction = getattr(reduction, "__name__", reduction)
        number = value.detach().double() if isinstance(value, torch.Tensor) and value.device.type != "mps" else value
        match self.reduction:
            case "mean":
                self.total = number * num_rows if self.total is None else self.total + number * num_rows
                self.weight += num_rows
            case "sum":
                self.total = number if self.total is None else self.total + number
            case "max" | "min" as pick:
                known = number if self.total is None else self.total
                self.total = max(known, number) if pick == "max" else min(known, number)
            case other:
                raise JobRaised(
                    f"{self.wanted!r} is logged with reduce_fx={other!r}; legroom knows mean, sum, max, min"
                )


def logged_score(name: str, goal: Literal["max", "min"] | None) -> Score:
    """A Score that is the logged metric of that name."""
    if goal not in ("max", "min"):
        raise UsageError(f"score={name!r} needs goal='max' or goal='min': whether a higher or a lower one is better")
    reader = _Reader(name)
    return Score(reader.measure, goal=goal, finish=reader.finish, whole=True)  # what is logged, each process keeps


class _Reader:
    """Reads the value when a pass ends: by then validation_step, which gives the loss, has logged every batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Any = None

    def measure(self, module: Any, batch: Batch) -> tuple[float, float]:
        self.module = weakref.ref(module)
        if not module.trainer.steps.ends_validation and self.name not in module.trainer.log.names:
            raise self._never_logged(module)
        return 0.0, 1.0

    def finish(self, mean: float) -> float:
        module = self.module()
        log = module.trainer.log
        with evaluation_mode(module):
            module.trainer.steps.end_validation(module)
        never = self._never_logged(module)
        value: float | None = log.take()
        if value is None:
            raise never
        return value

    def _never_logged(self, module: Any) -> JobRaised:
        others = ", ".join(module.trainer.log.names) or "nothing"
        return JobRaised(
            f"{type(module).__name__} never logged {self.name!r} in validation; it logged {others}. "
            f"Call self.log({self.name!r}, ...) in validation_step or on_validation_epoch_end, or name another score="
        )
