"""Builds what a run trains: model, optimizer and step, with the options that make them faster."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from legroom.errors import JobRaised, UsageError
from legroom.job import Batch, Job, Settings
from legroom.training.data.batch import map_tensors
from legroom.training.step import TrainingStep


def seed_all(seed: int) -> None:
    """Every source of chance that a job may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def quicken(job: Job, *, compile: bool, channels_last: bool) -> Job:
    """The job with its loss compiled, and images laid out channels last before the model sees them."""
    loss = job.loss
    if loss is None:
        if compile or channels_last:
            raise UsageError("This job has its own step, so legroom cannot compile it or change its layout")
        return job
    if compile:
        loss = torch.compile(loss)
    if channels_last:
        plain = loss

        def loss(model: Any, batch: Batch) -> Any:
            return plain(model, map_tensors(_channels_last, batch))

    return replace(job, loss=loss)


def build_step(job: Job, settings: Settings, device: torch.device, *, channels_last: bool, fused: bool) -> TrainingStep:
    """A fresh model on the device, its optimizer, and the step that joins them."""
    model = job.model().to(device)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = job.optimizer(model, settings.learning_rate) if job.optimizer else None
    if fused:
        _fuse(optimizer)
    return TrainingStep(job, model.train(), optimizer, settings, device)


def base_rates(job: Job, optimizer: Any, settings: Settings) -> list[float]:
    """The rate of each parameter group as the job made it; schedules multiply these."""
    if hasattr(optimizer, "param_groups"):
        return [float(group["lr"]) for group in optimizer.param_groups]
    if settings.schedule != "constant" or settings.warmup_steps:
        raise UsageError(
            "This job hands legroom no optimizer, so its rate cannot be scheduled; use schedule='constant'"
        )
    return []


def set_rates(optimizer: Any, rates: list[float], factor: float) -> None:
    """Each group's own rate times the factor."""
    for group, rate in zip(optimizer.param_groups if rates else [], rates, strict=True):
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate * factor)
        else:
            group["lr"] = rate * factor


def _fuse(optimizer: Any) -> None:
    groups = getattr(optimizer, "param_groups", [])
    if not groups or any("fused" not in group for group in groups):
        raise JobRaised(f"{type(optimizer).__name__} has no fused form. Leave --fused out")
    for group in groups:
        group["fused"], group["foreach"] = True, False


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
