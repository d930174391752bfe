"""The estimate of GPU memory without a GPU, for the job on this child's bench."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch

from legroom.job import Batch
from legroom.probes.batches import BatchSource
from legroom.probes.bench import Bench
from legroom.probes.memory_trace import trace
from legroom.records import TracedMemory, TraceMemory


def estimate_memory(request: TraceMemory, bench: Bench) -> TracedMemory:
    """Trace the job's step at two sizes and report the law behind them."""
    torch.manual_seed(request.seed)
    bench.model  # noqa: B018  checked here, so that a bad model is blamed as everywhere else
    settings = replace(bench.job.baseline, precision=request.precision, accumulation_steps=request.accumulation_steps)
    estimate = trace(
        bench.job,
        settings,
        _batches_of(bench.train, request.samples),
        eval_batches_of=_batches_of(bench.valid, request.samples),
        capability=request.capability,
        beat=bench.beat,
    )
    return TracedMemory(estimate=estimate.as_record())


def _batches_of(source: BatchSource, samples: str) -> Callable[[int], Batch]:
    return lambda size: next(itertools.islice(source.batches(size, samples), 1))
