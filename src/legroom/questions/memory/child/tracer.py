"""Runs a job's own step on the CPU at some batch size, with shapes only or for real, and notes every storage."""

import copy
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from legroom.errors import NothingMeasured
from legroom.job import Batch, Job, Settings
from legroom.questions.memory.allocator.trace_law import Trace
from legroom.questions.memory.child.cuda_workspace import workspace_of
from legroom.questions.memory.child.quick_fake import QuickFakeMode
from legroom.questions.memory.child.storage_ledger import Ledger
from legroom.training.data.batch import map_tensors
from legroom.training.evaluation import evaluate
from legroom.training.step import TrainingStep
from legroom.training.torch_internals import FakeTensorMode, UpdatingScaler

CPU = torch.device("cpu")

BatchesOf = Callable[[int], Batch]
"""Number of samples -> a batch of so many, on the CPU."""

Passes = tuple[Trace, Trace | None, Trace]
"""One training step, one evaluation pass, and all that happened since the model was loaded, at one size."""


class Tracer:
    """Runs one job at several sizes, with shapes only or for real."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        batches_of: BatchesOf,
        eval_batches_of: BatchesOf,
        cublas_bytes: int,
        beat: Callable[[str], None],
    ) -> None:
        self.job, self.settings, self.cublas_bytes, self.beat = job, settings, cublas_bytes, beat
        self.batches_of, self.eval_batches_of = batches_of, eval_batches_of
        self.ledger = Ledger()

    def _model(self) -> Any:
        return self.job.make_model(self.settings.model_size)

    def try_sizes(
        self, fake_sizes: tuple[int, int], real_sizes: tuple[int, int]
    ) -> tuple[list[Passes], tuple[int, int], str]:
        """Traces, the sizes they are of, and why they are real where they are."""
        model = self._model()
        try:
            return [self._run_fake(model, size) for size in fake_sizes], fake_sizes, ""
        except Exception as error:  # whatever fake tensors cannot do; the user's own errors come again below
            reason = _describe(self.ledger.operator, error)
        del model
        try:
            return [self._run(self._model(), size, nullcontext()) for size in real_sizes], real_sizes, reason
        except NotImplementedError as error:
            raise NothingMeasured(
                f"The operator {self.ledger.operator} of this job runs neither on shapes alone nor on the CPU, so its "
                "memory cannot be estimated without a GPU. Run the same command on the GPU itself",
                details=str(error),
            ) from error

    def _run_fake(self, model: Any, size: int) -> Passes:
        mode = QuickFakeMode()
        return self._run(copy_into(mode, model), size, mode)

    def _run(self, model: Any, size: int, mode: AbstractContextManager[Any]) -> Passes:
        batch, eval_batch = self.batches_of(size), self.eval_batches_of(size)
        self.ledger = Ledger(self.cublas_bytes, workspace_of)
        with mode, self.ledger:
            self.ledger.see([list(model.parameters()), list(model.buffers())], "weights")
            optimizer = self._optimizer(model)  # its state lives on while the model is evaluated
            marks = self._train(model, optimizer, batch)
            evaluation = self._evaluate(model, eval_batch, size)
            history = replace(self.ledger.cut(size, 0, self.ledger.mark()), second_step=marks)
            return self.ledger.cut(size, *marks), evaluation, history

    def _optimizer(self, model: Any) -> Any:
        optimizer = self.job.optimizer(model.train(), self.settings.learning_rate) if self.job.optimizer else None
        prefer_foreach(optimizer)
        return optimizer

    def _train(self, model: Any, optimizer: Any, batch: Batch) -> tuple[int, int]:
        """Marks around the second of two steps: the first makes the optimizer's state."""
        job, settings = self.job, self.settings
        name_what_is_there = _watch(self.ledger, job, model, optimizer)

        def ended(phase: str) -> None:
            self.beat(phase)
            name_what_is_there(phase)

        step = TrainingStep(job, model, optimizer, settings, CPU, watch=ended)
        step.scaler = UpdatingScaler("cpu", enabled=settings.precision == "fp16")
        # Two batches show all that accumulation of any length holds: gradients kept, and others being added.
        batches = _FreshBatches(self.ledger, batch, min(2, settings.accumulation_steps))
        step(batches)
        gc.collect()
        start = self.ledger.mark()
        step(batches)
        return start, self.ledger.mark()

    def _evaluate(self, model: Any, batch: Batch, size: int) -> Trace | None:
        if self.job.loss is None and self.job.score is None:
            return None
        gc.collect()
        self.ledger.phase, start = "evaluation", self.ledger.mark()
        evaluate(self.job, model, _FreshBatches(self.ledger, batch, 1), CPU, self.settings.precision)
        return self.ledger.cut(size, start, self.ledger.mark())


class _FreshBatches(Sequence[Batch]):
    """The same batch again and again, each time in new storages: the copy a device gets."""

    def __init__(self, ledger: Ledger, batch: Batch, num_batches: int) -> None:
        self.ledger, self.batch, self.num_batches = ledger, batch, num_batches

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: Any) -> Batch:
        if index >= self.num_batches:
            raise IndexError(index)
        if self.ledger.phase != "evaluation":
            self.ledger.phase = "data"
        copied = map_tensors(torch.clone, self.batch)
        self.ledger.see(copied, "other")
        return copied


def _watch(ledger: Ledger, job: Job, model: Any, optimizer: Any) -> Callable[[str], None]:
    following = {"data": "update" if job.step else "forward", "forward": "backward", "backward": "update"}

    def ended(phase: str) -> None:
        if phase == "backward":
            ledger.see([p.grad for p in model.parameters() if p.grad is not None], "gradients")
        if phase == "update":
            for each in _optimizers_of(optimizer):
                _name_state(ledger, each)
        ledger.phase = following.get(phase, "between")

    return ended


def _name_state(ledger: Ledger, optimizer: Any) -> None:
    """Mark what the optimizer keeps. Its counts of steps stay on the host unless a fused kernel reads them."""
    ledger.see([list(state.values()) for state in optimizer.state.values()], "optimizer")
    for group in optimizer.param_groups:
        if not group.get("fused") and not group.get("capturable"):
            ledger.forget([optimizer.state.get(p, {}).get("step") for p in group["params"]])


def prefer_foreach(optimizer: Any) -> None:
    """Torch updates many tensors at once on CUDA where nothing else is asked, and one by one on the CPU."""
    for each in _optimizers_of(optimizer):
        for group in each.param_groups:
            if group.get("foreach", False) is None and not group.get("fused"):
                group["foreach"] = True


def _optimizers_of(made: Any) -> Iterator[torch.optim.Optimizer]:
    """Every optimizer in what the job made: one, or for jobs with their own step any nest of them."""
    if isinstance(made, torch.optim.Optimizer):
        yield made
    elif isinstance(made, dict | list | tuple):
        for value in made.values() if isinstance(made, dict) else made:
            yield from _optimizers_of(value)


def copy_into(mode: FakeTensorMode, model: Any) -> Any:
    """The same module with tensors that have shapes and no values; shared tensors stay shared."""
    known: dict[int, Any] = {}
    for parameter in model.parameters():
        fake = mode.from_tensor(parameter.detach())
        known[id(parameter)] = torch.nn.Parameter(fake, requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        known[id(buffer)] = mode.from_tensor(buffer)
    copied = copy.deepcopy(model, known)
    for old, new in zip(model.modules(), copied.modules(), strict=True):
        if getattr(old, "_trainer", None) is not None:  # Lightning leaves its trainer behind when it is copied
            new._trainer = old._trainer
    return copied


def _describe(operator: str, error: Exception) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0][:200] if lines else ""
    return f"{operator or 'the model'} needs values: {type(error).__name__}{': ' if text else ''}{text}"
