"""What one wants to know of a step beside its seconds: its phases, its operations, and how busy the device is."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from legroom.questions.speed.child.nvml import HOLD_SECONDS, GpuMonitor
from legroom.questions.speed.child.subject import TOO_MUCH, Subject
from legroom.questions.speed.records import DeviceLoad
from legroom.training.torch_internals import TorchDispatchMode, schema_of

NUM_STEPS, NUM_LONG_STEPS, LONG_SECONDS = 5, 2, 0.2
PHASES = ("forward", "backward", "update")
SMALLEST_COUNTED = 2
"""BatchNorm cannot train on one sample."""
HEAVY = ("rnn", "lstm", "gru", "attention", "ctc_loss", "_embedding_bag", "mkldnn")
"""Parts of the names of operators that compute much, and for which torch may have no formula."""


def phase_shares(subject: Subject) -> dict[str, float]:
    """Share of each phase in a step; each is waited for, so these steps are not the ones that are timed.

    A job with its own step shows one phase only, and so no shares.
    """
    timer = subject.timer
    seen: dict[str, list[float]] = {phase: [] for phase in PHASES}
    last = [0.0]

    def watch(phase: str) -> None:
        timer.wait()
        now = timer.clock()
        if phase in seen:
            seen[phase].append(now - last[0])
        last[0] = now

    step = subject.make_step(watch)
    try:
        placed = subject.place()
        for _ in range(NUM_STEPS if subject.step_seconds < LONG_SECONDS else NUM_LONG_STEPS):
            step([next(placed)])
    except TOO_MUCH:  # it ran in the rounds; the seconds measured there stand
        return {}
    medians = {phase: statistics.median(times) for phase, times in seen.items() if times}
    total = sum(medians.values())
    return {phase: value / total for phase, value in medians.items()} if len(medians) > 1 and total else {}


def flops_of(subjects: Sequence[Subject]) -> tuple[float, list[str]]:
    """Operations a sample and the operators left out, by one step at the smallest size that trains."""
    usable = [subject for subject in subjects if subject.batch_size >= SMALLEST_COUNTED] or subjects
    if not usable:
        return 0.0, []
    subject = min(usable, key=lambda subject: subject.batch_size)
    placed = subject.place()
    try:
        total, uncounted = count_flops(lambda: subject.step([next(placed)]))
    except Exception as error:  # a job's own operators may not bear being watched: then nothing is counted
        return 0.0, [type(error).__name__]
    return total / subject.batch_size, uncounted


def count_flops(step: Callable[[], Any]) -> tuple[float, list[str]]:
    """Operations of one call, and the names of operators that did work the count leaves out.

    A multiplication with its addition counts as two, as in a peak measured by matrix products.
    """
    counter = FlopCounterMode(display=False)
    seen = Names()
    with seen, counter:
        step()
    counted = {str(name).rpartition(".")[2] for name in counter.get_flop_counts().get("Global", {})}
    missed = {name for name in seen.names if any(word in name for word in HEAVY)} - counted
    return float(counter.get_total_flops()), sorted(name for name in missed if not name.endswith("_backward"))


class Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the name of every operator that runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator and remember what it is called."""
        self.names.add(schema_of(function).name.rpartition("::")[2])
        return function(*args, **(kwargs or {}))


def loads_of(subjects: Sequence[Subject], device: str) -> tuple[dict[int, DeviceLoad], list[str]]:
    """How busy the GPU is at each size, by NVML; elsewhere nothing, with a sentence where that is a lack."""
    if torch.device(device).type != "cuda":
        return {}, ["power and energy: they are read from a GPU's own counters"]
    monitor = GpuMonitor(f"GPU-{torch.cuda.get_device_properties(torch.device(device)).uuid}")
    if monitor.why_not:
        return {}, [monitor.why_not]
    return {subject.batch_size: _hold(subject, monitor) for subject in subjects}, []


def _hold(subject: Subject, monitor: GpuMonitor) -> DeviceLoad:
    """Steps of one size for longer than NVML's own window."""
    num_steps = math.ceil(HOLD_SECONDS / subject.step_seconds)
    placed = subject.place()

    def run() -> None:
        for _ in range(num_steps):
            subject.step([next(placed)])
        subject.timer.wait()

    try:
        load = monitor.watch(run, num_steps * subject.batch_size)
    except TOO_MUCH:
        return DeviceLoad()
    subject.built.beat(f"batch of {subject.batch_size}")
    return load
