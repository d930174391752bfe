"""Peak memory of each phase of a training step at one batch size, on this process's device."""

import itertools
import math
import statistics
from dataclasses import replace

import torch
from torch import nn

from legroom.child.batches import NoBatch
from legroom.child.built_job import BuiltJob
from legroom.child.meters import HostMeter, Meter, open_meter, use_allocator
from legroom.clock import Clock, monotonic
from legroom.errors import JobRaised
from legroom.job import Batch
from legroom.laws.memory import growth
from legroom.questions.memory.child.training_peaks import run_loop
from legroom.questions.memory.records import PhasePeaks, StepPeaks
from legroom.training.evaluation import evaluate


class PhaseWatch:
    """Collects the peak of every phase of every step."""

    def __init__(self, meter: Meter, built: BuiltJob) -> None:
        self.meter, self.built = meter, built
        self.steps: list[dict[str, int]] = []

    def start_step(self) -> None:
        """The peaks that follow belong to a new step."""
        self.steps.append({})
        self.meter.take_peak()

    def __call__(self, phase: str) -> None:
        """The phase has ended."""
        self.steps[-1][phase] = max(self.steps[-1].get(phase, 0), self.meter.take_peak())
        self.built.beat(phase)

    def peaks(self) -> dict[str, int]:
        """The largest of each phase over all steps."""
        names = {name for step in self.steps for name in step}
        return {name: max(step.get(name, 0) for step in self.steps) for name in names}

    def spread(self) -> float:
        """(largest - smallest) / largest of the steps' peaks; the first step has no optimizer state yet."""
        tops = [max(step.values()) for step in self.steps[1:] if step]
        return (max(tops) - min(tops)) / max(tops) if tops else 0.0


def measure_peaks(request: StepPeaks, built: BuiltJob, clock: Clock = monotonic) -> PhasePeaks:
    """Run the steps and the evaluation passes the request asks for, and read the peak of each phase."""
    try:
        return _measure(request, built, clock) if request.num_workers is None else _train(request, built, clock)
    except NoBatch:
        return PhasePeaks(outcome="no_batch")


def _train(request: StepPeaks, built: BuiltJob, clock: Clock) -> PhasePeaks:
    if built.job.loader is not None:
        next(built.train.batches(request.batch_size, request.samples))  # NoBatch where it has none so large
    run, peaks = run_loop(request, built, clock)
    watch = PhaseWatch(HostMeter(), built)
    return replace(peaks, phase_bytes={**peaks.phase_bytes, **_large_evaluation(built, run.model, request, watch)})


def _measure(request: StepPeaks, built: BuiltJob, clock: Clock) -> PhasePeaks:
    device = torch.device(request.device)
    torch.manual_seed(request.seed)
    if request.anew:
        built.forget_model()
        use_allocator(request.allocator)
    meter = open_meter(request.device, request.cap_bytes)
    watch = PhaseWatch(meter, built)
    step = built.training_step(device, request.precision, watch, request.options)
    seconds: list[float] = []
    for batch in itertools.islice(built.train.batches(request.batch_size, request.samples), request.num_steps):
        watch.start_step()
        started = clock()
        loss = step([batch] * request.accumulation_steps)
        _check_finite(loss, built)  # reads the loss, so the device has finished when the clock is read
        seconds.append(clock() - started)
        meter.end_step()
    spread, grown = watch.spread(), growth(watch.steps)
    phases = watch.peaks() | {"evaluation": _evaluation_peak(built, built.model, request, request.batch_size, watch)}
    phases |= meter.reserved() | _large_evaluation(built, built.model, request, watch)
    return PhasePeaks(
        **meter.report(),
        phase_bytes=phases,
        spread=spread,
        num_repeats=request.num_steps,
        step_seconds=statistics.median(seconds),
        growth_bytes=grown,
    )


def _large_evaluation(built: BuiltJob, model: nn.Module, request: StepPeaks, watch: PhaseWatch) -> dict[str, int]:
    """Peak of the larger pass; empty where none was asked for or it does not fit: training fitted all the same."""
    if request.eval_batch_size is None:
        return {}
    try:
        return {"large_evaluation": _evaluation_peak(built, model, request, request.eval_batch_size, watch)}
    except (torch.OutOfMemoryError, MemoryError, NoBatch):
        return {}


def _evaluation_peak(built: BuiltJob, model: nn.Module, request: StepPeaks, batch_size: int, watch: PhaseWatch) -> int:
    """Peak of a pass over one batch, optimizer state still in place as it is in training."""
    watch.start_step()
    batch = _evaluation_batch(built, batch_size, request.samples)
    evaluate(built.job, model, [batch], torch.device(request.device), request.precision)
    watch("evaluation")
    return watch.steps.pop()["evaluation"]


def _evaluation_batch(built: BuiltJob, batch_size: int, samples: str) -> Batch:
    """A batch of that size; half of it, and so on, where the job's own loader cannot lay out so wide a one."""
    try:
        return next(built.valid.batches(batch_size, samples))
    except NoBatch:
        if batch_size == 1:
            raise
        return _evaluation_batch(built, batch_size // 2, samples)


def _check_finite(loss: torch.Tensor, built: BuiltJob) -> None:
    """The first loss of a fresh model must be a number; later ones may diverge on a probe's few samples."""
    value = float(loss)
    if not built.saw_finite_loss and not math.isfinite(value):
        raise JobRaised(
            f"The loss of the first step is {value}. legroom needs a finite loss: look for a division by zero, "
            "a logarithm of zero or labels outside the classes"
        )
    built.saw_finite_loss = True
