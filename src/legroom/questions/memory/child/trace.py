"""Estimates a job's memory on a GPU without one: its step is traced at two sizes, and the law behind them reported."""

import gc
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from legroom.child.batches import BatchSource
from legroom.child.built_job import BuiltJob
from legroom.job import Job, Settings
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.allocator.reserve import fit_reserves
from legroom.questions.memory.allocator.trace_law import fit
from legroom.questions.memory.child import cuda_rules
from legroom.questions.memory.child.tracer import BatchesOf, Passes, Tracer
from legroom.questions.memory.records import TracedMemory, TraceMemory

FAKE_SIZES = (8, 16)
"""Shapes only: any size costs the same. Above 4, so that no dimension is taken for another."""
REAL_SIZES = (2, 4)
"""Computed for real on the CPU: small, and never 1, which batch norm refuses."""


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


def _batches_of(source: BatchSource, samples: str) -> BatchesOf:
    return lambda size: next(itertools.islice(source.batches(size, samples), 1))


def trace(
    job: Job,
    settings: Settings,
    batches_of: BatchesOf,
    *,
    eval_batches_of: BatchesOf | None = None,
    capability: int = 9,
    fake_sizes: tuple[int, int] = FAKE_SIZES,
    real_sizes: tuple[int, int] = REAL_SIZES,
    beat: Callable[[str], None] = lambda phase: None,
) -> MemoryEstimate:
    """The memory law of the job's training step and evaluation pass on a CUDA card of that major capability.

    Runs the user's code and changes torch's dispatcher while it does: only a child that is thrown away calls this.
    Shapes are enough for most jobs; where a value decides a shape, the same step is computed on the CPU.
    """
    started = time.perf_counter()
    cublas = cuda_rules.CUBLAS_WORKSPACE_BYTES.get(capability, cuda_rules.CUBLAS_WORKSPACE_OTHER_BYTES)
    tracer = Tracer(job, settings, batches_of, eval_batches_of or batches_of, cublas, beat)
    with cuda_rules.installed(), _quiet_collector():
        passes, sizes, reason = tracer.try_sizes(fake_sizes, real_sizes)
    return _estimate(passes, sizes, reason, started, beat)


def _estimate(
    passes: Sequence[Passes], sizes: tuple[int, int], reason: str, started: float, beat: Callable[[str], None]
) -> MemoryEstimate:
    (small, small_eval, small_history), (large, large_eval, large_history) = passes
    train, notes = fit(small, large)
    evaluation, eval_notes = fit(small_eval, large_eval) if small_eval and large_eval else (None, ())
    slack = (cuda_rules.SLACK_BYTES, cuda_rules.SLACK_SHARE)
    return MemoryEstimate(
        train=train.with_slack(*slack),
        evaluation=evaluation.with_slack(*slack) if evaluation else None,
        method="real" if reason else "fake",
        reason=reason,
        batch_sizes=sizes,
        notes=notes + tuple(f"Evaluation: {note}" for note in eval_notes),
        reserves=fit_reserves(small_history, large_history, train, beat),
        seconds=time.perf_counter() - started,
    )


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Python's collector runs between steps only: at a moment of its own it would bury storages in any order.

    What lives by now stays out of its sight: a walk over all of torch takes 0.2 s, and each trace begins with one.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
