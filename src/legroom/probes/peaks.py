"""Peak memory of each phase of a training step at one batch size, on this process's device."""

import itertools
import math
import resource
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import torch

from legroom.clock import Clock, monotonic
from legroom.errors import JobRaised
from legroom.job import Batch
from legroom.probes.batches import NoBatch
from legroom.probes.bench import Bench
from legroom.records import PhasePeaks, StepPeaks
from legroom.training.evaluation import evaluate


class Meter(Protocol):
    """Tells the peak since it was last read."""

    def take_peak(self) -> int:
        """Bytes of the peak since the last call."""
        ...


class HostMeter:
    """Resident memory of this process."""

    def take_peak(self) -> int:
        """The kernel's own high-water mark, set back to the present size by writing 5 to clear_refs (proc(5))."""
        try:
            status = Path("/proc/self/status").read_text()
            Path("/proc/self/clear_refs").write_text("5")
            return int(status.partition("VmHWM:")[2].split()[0]) * 1024
        except OSError:
            # Elsewhere the mark only rises: right as long as sizes are tried in growing order.
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024


class PhaseWatch:
    """Collects the peak of every phase of every step."""

    def __init__(self, meter: Meter, bench: Bench) -> None:
        self.meter, self.bench = meter, bench
        self.steps: list[dict[str, int]] = []

    def start_step(self) -> None:
        """The peaks that follow belong to a new step."""
        self.steps.append({})
        self.meter.take_peak()

    def __call__(self, phase: str) -> None:
        """The phase has ended."""
        self.steps[-1][phase] = max(self.steps[-1].get(phase, 0), self.meter.take_peak())
        self.bench.beat(phase)

    def peaks(self) -> dict[str, int]:
        """The largest of each phase over all steps."""
        names = {name for step in self.steps for name in step}
        return {name: max(step.get(name, 0) for step in self.steps) for name in names}

    def spread(self) -> float:
        """(largest - smallest) / largest of the steps' peaks; the first step has no optimizer state yet."""
        tops = [max(step.values()) for step in self.steps[1:] if step]
        return (max(tops) - min(tops)) / max(tops) if tops else 0.0


def measure_peaks(request: StepPeaks, bench: Bench, clock: Clock = monotonic) -> PhasePeaks:
    """Run the steps and the evaluation passes the request asks for, and read the peak of each phase."""
    try:
        return _measure(request, bench, clock)
    except NoBatch:
        return PhasePeaks(outcome="no_batch")


def _measure(request: StepPeaks, bench: Bench, clock: Clock) -> PhasePeaks:
    device = torch.device(request.device)
    torch.manual_seed(request.seed)
    watch = PhaseWatch(HostMeter(), bench)
    step = bench.training_step(device, request.precision, watch)
    seconds = []
    batches = bench.train.batches(request.batch_size, request.samples)
    for batch in itertools.islice(batches, request.num_steps):
        watch.start_step()
        started = clock()
        loss = step([batch])
        seconds.append(clock() - started)
        _check_finite(loss, bench)
    spread = watch.spread()
    phases = watch.peaks() | {"evaluation": _evaluation_peak(bench, request, request.batch_size, watch)}
    if request.eval_batch_size is not None:
        phases["large_evaluation"] = _evaluation_peak(bench, request, request.eval_batch_size, watch)
    return PhasePeaks(
        phase_bytes=phases, spread=spread, num_repeats=request.num_steps, step_seconds=statistics.median(seconds)
    )


def _evaluation_peak(bench: Bench, request: StepPeaks, batch_size: int, watch: PhaseWatch) -> int:
    """Peak of a pass over one batch, optimizer state still in place as it is in training."""
    watch.start_step()
    batch: Iterator[Batch] = itertools.islice(bench.valid.batches(batch_size, request.samples), 1)
    evaluate(bench.job, bench.model, batch, torch.device(request.device), request.precision)
    watch("evaluation")
    return watch.steps.pop()["evaluation"]


def _check_finite(loss: torch.Tensor, bench: Bench) -> None:
    """The first loss of a fresh model must be a number; later ones may diverge on a probe's few samples."""
    if not bench.saw_finite_loss and not math.isfinite(float(loss)):
        raise JobRaised(
            f"The loss of the first step is {float(loss)}. legroom needs a finite loss: look for a division by zero, "
            "a logarithm of zero or labels outside the classes"
        )
    bench.saw_finite_loss = True
