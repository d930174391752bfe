"""What settings change of how steps are computed, for all that trains or times: layout, fused optimizer, compiling."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from legroom.errors import JobRaised, UsageError
from legroom.job import Batch, Job, Settings
from legroom.training.data.batch import map_tensors
from legroom.training.step import TrainingStep
from legroom.training.torch_internals import import_compiler


def build_step(
    job: Job, settings: Settings, device: torch.device, prepare: Callable[[Any], Any] = lambda model: model
) -> TrainingStep:
    """A fresh model on the device, its optimizer, and the step that joins them; the job is one of `apply_options`."""
    model = prepare(place_model(job.make_model(settings.model_size), settings, device))
    return TrainingStep(job, model.train(), make_optimizer(job, model, settings), settings, device)


def apply_options(job: Job, settings: Settings) -> Job:
    """The job with its loss compiled, and images laid out channels last before the model sees them."""
    loss = job.loss
    if loss is None:
        if settings.compile or settings.channels_last:
            raise UsageError("This job has its own step, so legroom cannot compile it or change its layout")
        return job
    if settings.compile:
        loss = torch.compile(loss)
    if settings.channels_last:
        plain = loss

        def loss(model: Any, batch: Batch) -> Any:
            return plain(model, map_tensors(_channels_last, batch))

    return replace(job, loss=loss)


def place_model(model: Any, settings: Settings, device: torch.device) -> Any:
    """The model on the device, its convolutions laid out as the settings say."""
    model = model.to(device)
    return model.to(memory_format=torch.channels_last) if settings.channels_last else model


def make_optimizer(job: Job, model: Any, settings: Settings) -> Any:
    """The job's optimizer at that rate, fused where the settings say so; None where the job keeps them to itself."""
    if job.optimizer:
        import_compiler()
    optimizer = job.optimizer(model, settings.learning_rate) if job.optimizer else None
    if settings.fused:
        _fuse(optimizer)
    return optimizer


def _fuse(optimizer: Any) -> None:
    groups = getattr(optimizer, "param_groups", [])
    if not groups or any("fused" not in group for group in groups):
        raise JobRaised(f"{type(optimizer).__name__} has no fused form. Leave fused out")
    for group in groups:
        group["fused"], group["foreach"] = True, False


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
