"""Steps of one process that shares each batch out to all GPUs (nn.DataParallel). Not run on two GPUs yet."""

import statistics
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from legroom.child.built_job import BuiltJob
from legroom.questions.devices.child.ranks import NUM_WARM, timed
from legroom.questions.devices.records import DataParallelTimed, TimeDataParallel
from legroom.training.data.batch import move
from legroom.training.several_ranks import LossModule
from legroom.training.step import TrainingStep

NUM_STEPS = 20


def time_data_parallel(request: TimeDataParallel, built: BuiltJob) -> DataParallelTimed:
    """Time steps of one global batch; the first GPU coordinates, gathers and updates, which costs it memory."""
    torch.manual_seed(request.seed)
    places = [torch.device("cuda", number) for number in range(request.num_devices)]
    batch = move(next(built.train.batches(request.batch_size, "typical")), places[0])
    plain = built.training_step(places[0], request.precision, lambda phase: None)
    assert plain.job.loss is not None
    wrapped = nn.DataParallel(LossModule(plain.model, plain.job.loss), device_ids=list(range(request.num_devices)))
    job = replace(plain.job, loss=lambda model, data: joined(model(data)))
    step = TrainingStep(job, wrapped, plain.optimizer, plain.settings, places[0])
    torch.cuda.empty_cache()  # what building left reserved would count as the first GPU's
    for place in places:
        torch.cuda.reset_peak_memory_stats(place)
    timed(lambda: step([batch]), NUM_WARM, places[0])
    seconds = timed(lambda: step([batch]), NUM_STEPS, places[0])
    return DataParallelTimed(
        step_seconds=statistics.median(seconds),
        peak_bytes=[torch.cuda.max_memory_reserved(place) for place in places],
    )


def joined(parts: Any) -> Any:
    """The loss of the whole batch, from those of its parts: their mean, weighed by counts where the job has them."""
    if not isinstance(parts, tuple):
        return parts.mean()
    means, counts = parts
    return (means * counts).sum() / counts.sum(), counts.sum()
