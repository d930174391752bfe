"""The estimate of GPU memory without a GPU, for the job on this child's built."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch

from legroom.child.batches import BatchSource
from legroom.child.built_job import BuiltJob
from legroom.job import Batch
from legroom.questions.memory.child.trace import trace
from legroom.questions.memory.records import TracedMemory, TraceMemory


def estimate_memory(request: TraceMemory, built: BuiltJob) -> TracedMemory:
    """Trace the job's step at two sizes and report the law behind them."""
    torch.manual_seed(request.seed)
    built.model  # noqa: B018  checked here, so that a bad model is blamed as everywhere else
    settings = replace(built.job.baseline, precision=request.precision, accumulation_steps=request.accumulation_steps)
    estimate = trace(
        built.job,
        settings,
        _batches_of(built.train, request.samples),
        eval_batches_of=_batches_of(built.valid, request.samples),
        capability=request.capability,
        beat=built.beat,
    )
    return TracedMemory(estimate=estimate.as_record())


def _batches_of(source: BatchSource, samples: str) -> Callable[[int], Batch]:
    return lambda size: next(itertools.islice(source.batches(size, samples), 1))
