"""What a job is: its model, its data and its own settings, without running a step."""

import statistics
from dataclasses import asdict

import torch

from legroom.child.batches import sample_bytes
from legroom.child.built_job import BuiltJob
from legroom.requests import Describe, JobDescription
from legroom.training.noise import normalises_by_batch


def describe(request: Describe, built: BuiltJob) -> JobDescription:
    """Build the model and the data and say what they are."""
    job, model, train = built.job, built.model, built.train
    parameters = list(model.parameters())
    sizes = sorted(sample_bytes(train.sample(position)) for _, position in train.sizes[:64]) or [0]
    return JobDescription(
        model_name=type(model).__name__,
        num_parameters=sum(parameter.numel() for parameter in parameters),
        num_trainable=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        parameter_bytes=sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        num_samples=train.num_samples,
        num_valid_samples=built.valid.num_samples if job.valid_data else None,
        sample_bytes=(sizes[0], int(statistics.median(sizes)), sizes[-1]),
        num_scanned=len(train.sizes),
        sample_seconds=statistics.median(train.read_seconds) if train.read_seconds else None,
        uneven=train.uneven,
        own_step=job.step is not None,
        own_loader=job.loader is not None,
        carries_state=train.carries_state(),
        normalises_by_batch=normalises_by_batch(model),
        epoch_batches=train.epoch_batches(),
        widest_batch=train.widest(),
        widest_valid_batch=built.valid.widest(),
        has_score=job.score is not None,
        goal=job.score.goal if job.score else "max",
        chance=job.score.chance if job.score else None,
        has_valid=job.valid_data is not None,
        optimizer_name=type(built.optimizer).__name__ if built.optimizer is not None else "",
        baseline=asdict(job.baseline),
        torch_version=str(torch.__version__),
        notes=[*job.notes, *train.nan_notes()],
    )
