"""One device's step in parts: when each gradient is ready, and what several devices would have to tell each other."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from legroom.child.built_job import BuiltJob
from legroom.errors import UsageError
from legroom.laws.intervals import relative_width
from legroom.questions.devices.records import BackwardTimes, TimeBackward
from legroom.training.data.batch import move, tensors_of
from legroom.training.several_ranks import NORMS

NUM_WARM, LEAST_STEPS, MOST_STEPS = 3, 7, 60
VISIT_SECONDS = 1.5
COPY_BYTES, NUM_COPIES = 2**24, 5
GRADIENT = "gradient of "
"""Before a parameter's name, so that it is taken for no phase."""
TOO_MUCH = (torch.OutOfMemoryError, MemoryError)


def time_backward(request: TimeBackward, built: BuiltJob) -> BackwardTimes:
    """Time the parts of steps at one batch size."""
    try:
        return _time(request, built)
    except TOO_MUCH:
        built.forget_model()
        return BackwardTimes(outcome="out_of_memory")


def _time(request: TimeBackward, built: BuiltJob) -> BackwardTimes:
    if built.job.step is not None:
        raise UsageError(
            "This job has its own step, so its backward pass is not known. Give the Job loss and optimizer"
        )
    torch.manual_seed(request.seed)
    device = torch.device(request.device)
    with num_threads(request.num_threads if device.type == "cpu" else None):
        batch = move(next(built.train.batches(request.batch_size, "typical")), device)
        stamps = Stamps(device)
        step = built.training_step(device, request.precision, stamps.mark)
        before = other_buffers(built.model)
        flops, layers = _look(built, lambda: step([batch]), request.batch_size)
        with stamps.on_gradients(built.model):
            for _ in range(NUM_WARM):
                stamps.run(lambda: step([batch]))
            runs: list[dict[str, float]] = []
            cores, wall = time.process_time(), time.perf_counter()
            while len(runs) < MOST_STEPS and (len(runs) < LEAST_STEPS or time.perf_counter() - wall < VISIT_SECONDS):
                runs.append(stamps.run(lambda: step([batch])))
                built.beat(f"batch of {request.batch_size}")
            used = (time.process_time() - cores) / (time.perf_counter() - wall)
        changed = changed_since(before, built.model)
        return _summary(runs, built, device, used / request.num_threads, changed, flops, layers)


def _summary(
    runs: Sequence[dict[str, float]],
    built: BuiltJob,
    device: torch.device,
    used: float,
    changed: Sequence[str],
    flops: float,
    layers: Sequence[int],
) -> BackwardTimes:
    model = built.model
    trainable = {name: each for name, each in model.named_parameters() if each.requires_grad}
    between = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    ready = sorted((between[GRADIENT + name], name) for name in trainable if GRADIENT + name in between)
    totals = [run["update"] for run in runs]
    return BackwardTimes(
        forward_seconds=between["forward"],
        backward_seconds=between["backward"],
        update_seconds=max(0.0, statistics.median(run["update"] - run["forward"] - run["backward"] for run in runs)),
        spread=1 + relative_width(totals),
        num_repeats=len(runs),
        utilisation=min(1.0, used) if device.type == "cpu" else None,
        gradient_bytes=[_bytes(trainable[name]) for _, name in ready],
        ready_seconds=[min(between["backward"], at) for at, _ in ready],
        copy_bytes_per_second=_copy_pace(device),
        buffer_bytes=sum(map(_bytes, model.buffers())),
        num_buffer_messages=len({buffer.dtype for buffer in model.buffers()}),
        norm_features=[layer.num_features for layer in model.modules() if isinstance(layer, NORMS)],
        other_buffers=changed,
        num_watched=1 + NUM_WARM + len(runs),
        unused_parameters=[name for name in trainable if GRADIENT + name not in between],
        parameter_bytes=sum(map(_bytes, model.parameters())),
        state_bytes=sum(_bytes(value) for value in _state_tensors(built.optimizer)),
        flops_per_sample=flops,
        layer_bytes=layers,
    )


class Stamps:
    """Moments of a step: phases and gradients, by the host's clock on a CPU and by the device's events on CUDA."""

    def __init__(self, device: torch.device) -> None:
        self.is_cuda = device.type == "cuda"
        self.moments: dict[str, Any] = {}

    def mark(self, name: str) -> None:
        """Remember that moment; a phase's when it ends, a gradient's when it is there."""
        if self.is_cuda:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self.moments[name] = event
        else:
            self.moments[name] = time.perf_counter()

    def run(self, step: Callable[[], Any]) -> dict[str, float]:
        """Seconds of one step: its forward pass, its backward pass, all of it, and each gradient since the loss."""
        self.moments = {}
        step()
        if self.is_cuda:
            torch.cuda.synchronize()
        known = {
            name: self._since(name, "forward") for name in self.moments if name not in ("data", "forward", "update")
        }
        whole = {"forward": self._since("forward", "data"), "update": self._since("update", "data")}
        return known | whole

    def _since(self, name: str, start: str) -> float:
        if self.is_cuda:
            return float(self.moments[start].elapsed_time(self.moments[name])) / 1e3
        return float(self.moments[name] - self.moments[start])

    @contextmanager
    def on_gradients(self, model: nn.Module) -> Iterator[None]:
        """Mark every gradient as DistributedDataParallel learns of it: once it is accumulated."""

        def hook(name: str) -> Callable[[torch.Tensor], None]:
            return lambda parameter: self.mark(GRADIENT + name)

        hooks = [
            parameter.register_post_accumulate_grad_hook(hook(name))  # type: ignore[no-untyped-call]
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()


def other_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Copies, on the host, of the buffers that are no BatchNorm's."""
    norms = {id(buffer) for each in model.modules() if isinstance(each, NORMS) for buffer in each.buffers()}
    return {name: buffer.detach().cpu().clone() for name, buffer in model.named_buffers() if id(buffer) not in norms}


def changed_since(before: Mapping[str, torch.Tensor], model: nn.Module) -> list[str]:
    """Those that are no more what they were, or were not there."""
    now = other_buffers(model)
    return [name for name, value in now.items() if name not in before or not torch.equal(value, before[name])]


def _look(built: BuiltJob, step: Callable[[], Any], batch_size: int) -> tuple[float, list[int]]:
    """One step watched: operations a sample, bytes that layers put out."""
    model, outputs = built.model, []

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        outputs.append(sum(map(_bytes, tensors_of(output))))

    layers = [each for each in model.modules() if any(True for _ in each.parameters(recurse=False))]
    hooks = [layer.register_forward_hook(hook) for layer in layers]
    counter = FlopCounterMode(display=False)
    try:
        with counter:
            step()
    finally:
        for handle in hooks:
            handle.remove()
    return counter.get_total_flops() / batch_size, outputs


@contextmanager
def num_threads(wanted: int | None) -> Iterator[None]:
    """Let torch compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _copy_pace(device: torch.device) -> float:
    """Bytes a second at which a bucket is filled: copies of what lies in no cache."""
    source = torch.ones(COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(NUM_COPIES):
        started = time.perf_counter()
        torch.mul(source, 0.5, out=target)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return COPY_BYTES / statistics.median(seconds)


def _state_tensors(optimizer: Any) -> Iterator[torch.Tensor]:
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
