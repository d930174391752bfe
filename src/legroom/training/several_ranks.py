"""A run in several processes: one model, one order of samples, decisions taken together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from legroom.errors import JobRaised, UsageError
from legroom.job import Batch, Job
from legroom.training import sharding
from legroom.training.data.batch import move
from legroom.training.metrics import LOOK_SECONDS, LOOK_STEPS
from legroom.training.ranks import OneRank
from legroom.training.rng import restore_rng, rng_state, seed_all
from legroom.training.step import TrainingStep, autocast, loss_and_count

if TYPE_CHECKING:
    from legroom.training.metrics import Recorder

LONGER = 4
"""Updates to the next look are at most so many times those to this one: the first updates are slow."""
NAMED = 5
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""Layers that normalise over the batch."""


class SeveralRanks(OneRank):
    """One of the processes of a run. Every method is a meeting: all ranks call it at the same place, or all wait."""

    def __init__(
        self,
        number: int,
        num_ranks: int,
        device: torch.device,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        sync_batch_norm: bool = False,
        find_unused_parameters: bool = False,
        shard: bool = False,
    ) -> None:
        self.number, self.num_ranks, self.device = number, num_ranks, device
        self.sync_batch_norm, self.find_unused_parameters = sync_batch_norm, find_unused_parameters
        self.is_sharded = shard
        self.parts: list[Any] = []
        """Modules whose weights are shared out, the module of the loss last."""
        self.interrupted = interrupted
        """Whether this process was told to end."""
        self.told_to_end = False
        """Whether any was, as of the last look: what all act on."""
        self.next_look, self.last_look = 1, 0
        self.first_done: list[int] = []
        """Ranks that had no more batches, the first time that others had."""

    def prepare(self, job: Job, model: Any) -> Any:
        """With batch statistics over all ranks, and weights shared out to them, where asked for."""
        if self.sync_batch_norm:
            if self.device.type == "cpu":
                raise UsageError("torch synchronises BatchNorm on GPUs alone. Leave --sync-batch-norm out on CPUs")
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        if self.is_sharded:
            assert job.loss is not None
            self.parts = sharding.shard(LossModule(model, job.loss), self.device, self.num_ranks)
        return model

    def join(self, step: TrainingStep, *, equal: bool) -> TrainingStep:
        """The step whose gradients are averaged over all ranks."""
        return RanksStep(step, self, equal=equal)

    def is_due(self, recorder: "Recorder") -> bool:
        """Whether this is the update after which the first rank said to look: no clock of this process decides."""
        return recorder.trainer.at.step >= self.next_look or len(recorder.losses) >= LOOK_STEPS

    def meet(self, recorder: "Recorder") -> None:
        """Hear who was told to end, and after which update to look again: about a second's worth."""
        at, done = recorder.trainer.at, recorder.trainer.at.step - self.last_look
        pace = done / max(1e-6, recorder.trainer.clock() - recorder.looked_at)
        ahead = max(1, min(LOOK_STEPS, LONGER * max(1, done), int(pace * LOOK_SECONDS)))
        values = [float(self.interrupted()), float(at.step + ahead) if self.number == 0 else 0.0]
        came, next_look = self.total(torch.tensor(values, dtype=torch.float64)).tolist()
        self.told_to_end, self.next_look, self.last_look = came > 0, int(next_look), at.step

    def first(self, value: Any) -> Any:
        """A number or a decision, as the first rank has it."""
        held = torch.tensor([float(value)], dtype=self._wide, device=self.device)
        distributed.broadcast(held, 0)
        return type(value)(held.item())

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sums over all ranks, where the values were."""
        held = values.to(self.device, copy=True)
        distributed.all_reduce(held)
        return held.to(values.device)

    def fewest(self, number: int) -> int:
        """The smallest that a rank has: those with more data than others leave it out."""
        held = torch.tensor([number, -number], device=self.device)
        distributed.all_reduce(held, distributed.ReduceOp.MIN)
        fewest, most = int(held[0]), -int(held[1])
        if fewest < most and not self.first_done:
            numbers = self._of_all(number)
            self.first_done = [rank for rank, each in enumerate(numbers) if each == fewest]
        return fewest

    def share(self, content: Any, model: Any, optimizer: Any) -> Any:
        """What the first rank read from a checkpoint, to all; of weights that are shared out, each its part."""
        held = [content]
        distributed.broadcast_object_list(held, 0, device=self.device)
        if held[0] is None or not self.parts:
            return held[0]
        weights = sharding.split_weights(held[0]["model"], model)
        return {**held[0], "model": weights, "optimizer": sharding.split_optimizer(held[0]["optimizer"], optimizer)}

    @contextmanager
    def evaluating(self, model: Any) -> Iterator[None]:
        """Within, all ranks have the buffers of the first, which are what checkpoints hold, and the whole weights."""
        for buffer in model.buffers():
            distributed.broadcast(buffer, 0)
        with sharding.gathered(self.parts):
            yield

    def weights(self, model: Any) -> Mapping[str, Any]:
        """The weights of the whole model."""
        if not self.parts:
            return dict(model.state_dict())
        return sharding.gather(model.state_dict(), keep=self.number == 0)  # type: ignore[no-any-return]

    def settle(self, seed: int, content: Mapping[str, Any] | None) -> None:
        """Let each rank draw random numbers of its own: dropout must not be the same on all.

        Those of a checkpoint are put back where it was written by as many ranks; the first rank's are there already.
        """
        states = (content or {}).get("ranks_rng", [])
        if len(states) == self.num_ranks:
            restore_rng(states[self.number])
        elif self.number > 0:
            step = content["progress"]["step"] if content else 0
            seed_all(seed * 1_000_003 + self.number * 7_919 + step)

    def state(self, model: Any, optimizer: Any) -> dict[str, Any]:
        """Random numbers of all ranks; weights and optimizer made whole, where they are shared out."""
        held = self._of_all(rng_state())
        if not self.parts:
            return {"ranks_rng": held}
        whole = sharding.gather(optimizer.state_dict(), keep=self.number == 0)
        return {"ranks_rng": held, "model": self.weights(model), "optimizer": whole}

    def refuse_unequal(self, what: str, number: int | None, unit: str = "samples") -> None:
        """Refuse data that is not the same on all ranks, before an update would wait for ever."""
        held = self._of_all(number)
        if len(set(held)) > 1:
            raise JobRaised(
                f"The {what} has {', '.join(map(str, held))} {unit} on ranks 0 to {self.num_ranks - 1}. "
                "Every rank needs all of it: legroom shares it out by itself"
            )

    def _of_all(self, value: Any) -> list[Any]:
        """What each rank has."""
        held: list[Any] = [None] * self.num_ranks
        distributed.all_gather_object(held, value)
        return held

    @property
    def _wide(self) -> torch.dtype:
        return torch.float32 if self.device.type == "mps" else torch.float64


class LossModule(nn.Module):
    """The job's loss as a module, which is what DistributedDataParallel can wrap: its forward is loss(model, batch)."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Batch], Any]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Batch) -> Any:
        """What the job's loss returns."""
        return self.loss(self.model, batch)


class RanksStep(TrainingStep):
    """One update of all ranks: the mean over all their samples, however unevenly they weigh.

    DistributedDataParallel averages gradients over the N ranks. Each rank scales its mean loss by its count over the
    batch size B; with C, the count of all ranks and passes, the average times N A B / C is the gradient of the mean.
    """

    def __init__(self, step: TrainingStep, ranks: SeveralRanks, *, equal: bool) -> None:
        super().__init__(step.job, step.model, step.optimizer, step.settings, step.device, step.watch)
        self.ranks, self.equal = ranks, equal
        assert self.job.loss is not None
        self.wrapped: Any = None
        if ranks.parts:
            self.wrapped = ranks.parts[-1]
        else:
            self.wrapped = DistributedDataParallel(
                LossModule(self.model, self.job.loss),
                device_ids=[self.device.index] if self.device.type == "cuda" else None,
                find_unused_parameters=ranks.find_unused_parameters,
                bucket_cap_mb=self.settings.bucket_cap_mb,
                broadcast_buffers=self.settings.broadcast_buffers,
            )
        self.is_checked = ranks.find_unused_parameters or bool(ranks.parts)

    def __call__(self, batches: Sequence[Batch]) -> torch.Tensor:
        """Run the update and return this rank's part of its mean loss, detached: the parts of all ranks add up."""
        passes, size = len(batches), self.settings.batch_size
        losses: list[torch.Tensor] = []
        counted: Any = 0
        for place, batch in enumerate(batches):
            moved = move(batch, self.device)
            self.watch("data")
            is_last = place == passes - 1
            with self._speaking(is_last):
                mean, count = self._forward(moved)
                counted = counted + count
                total = self._count(counted) if is_last else None
                weight = 1.0 if self.equal else count / size
                self.scaler.scale(mean * (weight / passes)).backward()  # type: ignore[no-untyped-call]
            self.watch("backward")
            losses.append(mean.detach() * weight)
        correction = None if total is None else self.ranks.num_ranks * passes * size / total()
        self._check_gradients()
        self._update(correction)
        self.watch("update")
        part = torch.stack(losses).sum() / (passes * self.ranks.num_ranks)
        return part if correction is None else part * correction

    def _speaking(self, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients are joined over ranks in the last pass of an update alone."""
        if self.ranks.parts:
            self.wrapped.set_requires_gradient_sync(is_last)
        return nullcontext() if is_last or self.ranks.parts else self.wrapped.no_sync()

    def _forward(self, moved: Batch) -> tuple[torch.Tensor, Any]:
        try:
            with autocast(self.device, self.settings.precision):
                returned = self.wrapped(moved)
                found = loss_and_count(returned, moved)
        except RuntimeError as error:
            if "find_unused_parameters" in str(error):
                raise _unused("Some parameters") from error
            raise
        self.watch("forward")
        self.equal = self.equal and not isinstance(returned, tuple)
        return found

    def _count(self, counted: Any) -> Callable[[], torch.Tensor] | None:
        """Begin to add up what all ranks counted, while gradients are computed; None where all count the same."""
        if self.equal:
            return None
        held = torch.as_tensor(counted, dtype=torch.float32, device=self.device).reshape(()).clone()
        work = distributed.all_reduce(held, async_op=True)

        def total() -> torch.Tensor:
            work.wait()
            return held

        return total

    def _check_gradients(self) -> None:
        """After the first update: a parameter without a gradient would have the next one fail, in torch's words."""
        if self.is_checked:
            return
        self.is_checked = True
        named = self.model.named_parameters()
        without = [name for name, parameter in named if parameter.requires_grad and parameter.grad is None]
        if without:
            more = f" and {len(without) - NAMED:,} more" if len(without) > NAMED else ""
            raise _unused(f"The parameters {', '.join(without[:NAMED])}{more}")


def _unused(which: str) -> JobRaised:
    return JobRaised(
        f"{which} got no gradient on this rank, and DistributedDataParallel waits for that of each. Use them in the "
        "loss, freeze them (requires_grad=False), or add --find-unused-parameters (find_unused_parameters=True), which "
        "looks for them at every update"
    )
