"""One training step, shared by every probe, trial and run: forward, loss, backward, accumulation, clip, update."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from legroom.errors import JobRaised, UsageError
from legroom.job import Batch, Job, Settings
from legroom.training.data.batch import move, num_rows

Watch = Callable[[str], None]
"""Called with a phase's name when that phase ends: "data", "forward", "backward", "update"; a run's "evaluation"."""

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """The context in which forward passes of that precision run."""
    if precision not in AUTOCAST:
        return nullcontext()
    return torch.autocast(device.type, AUTOCAST[precision])


def loss_and_count(returned: Any, batch: Batch) -> tuple[torch.Tensor, Any]:
    """What the job's loss returned, as a scalar mean and the weight of the batch behind it."""
    if isinstance(returned, tuple) and len(returned) != 2:
        raise JobRaised(f"loss returned {len(returned)} values; legroom needs the mean, or (mean, count)")
    mean, count = returned if isinstance(returned, tuple) else (returned, None)
    if not isinstance(mean, torch.Tensor):
        raise JobRaised(f"loss returned a {type(mean).__name__}; legroom needs a scalar tensor, or (mean, count)")
    if mean.numel() != 1:
        raise JobRaised(f"loss returned a tensor of shape {tuple(mean.shape)}; legroom needs a scalar: take its mean")
    # A reshape of what is a scalar already would cost 2 us a step.
    scalar = mean if mean.dim() == 0 else mean.reshape(())
    return scalar, num_rows(batch) if count is None else count


class TrainingStep:
    """One update of the model from `accumulation_steps` batches, with gradients weighted by each batch's count.

    No call here waits for the device: the returned loss is a tensor, read it when you need it.
    """

    def __init__(
        self, job: Job, model: Any, optimizer: Any, settings: Settings, device: torch.device, watch: Watch | None = None
    ) -> None:
        if job.step is not None and settings.accumulation_steps > 1:
            raise UsageError("This job has its own step, so legroom cannot accumulate for it; use accumulation_steps=1")
        self.job, self.model, self.optimizer = job, model, optimizer
        self.settings, self.device = settings, device
        self.watch: Watch = watch or (lambda phase: None)
        # fp16 gradients underflow without a scaled loss; bf16 has fp32's range and needs none.
        self.scaler = torch.amp.GradScaler(device.type, enabled=settings.precision == "fp16")

    def __call__(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Run the update and return its mean loss, detached."""
        if self.job.step is not None:
            return self._run_own_step(batches[0])
        losses: list[torch.Tensor] = []
        counts: list[Any] = []
        for batch in batches:
            moved = move(batch, self.device)
            self.watch("data")
            with autocast(self.device, self.settings.precision):
                mean, count = loss_and_count(self.job.loss(self.model, moved), moved)  # type: ignore[misc]
            self.watch("forward")
            # Relative to the first count, so that token counts of many thousands do not overflow fp16 gradients.
            weight = count / (counts[0] if counts else count) / len(batches) if len(batches) > 1 else 1.0
            self.scaler.scale(mean * weight if len(batches) > 1 else mean).backward()  # type: ignore[no-untyped-call]
            self.watch("backward")
            losses.append(mean.detach())
            counts.append(count)
        self._update(len(batches) * counts[0] / sum(counts) if len(batches) > 1 else None)
        self.watch("update")
        if len(losses) == 1:
            return losses[0]
        total = sum(counts)
        return sum((loss * (count / total) for loss, count in zip(losses, counts, strict=True)), torch.zeros(()))

    def _update(self, correction: Any) -> None:
        if correction is not None or self.settings.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            self._correct(correction)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def _correct(self, correction: Any) -> None:
        """Weigh the joined gradients, then clip their norm."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        if correction is not None:
            for parameter in parameters:
                parameter.grad.mul_(correction)
        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.settings.clip_norm)

    def _run_own_step(self, batch: Batch) -> torch.Tensor:
        moved = move(batch, self.device)
        self.watch("data")
        with autocast(self.device, self.settings.precision):
            returned = self.job.step(self.model, self.optimizer, moved)  # type: ignore[misc]
        self.watch("update")
        mean, _ = loss_and_count(returned, moved)
        return mean.detach()
