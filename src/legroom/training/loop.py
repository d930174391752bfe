"""The one training loop: every run, trial and proof goes through it."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch

from legroom.clock import Clock, monotonic
from legroom.errors import JobRaised, UsageError
from legroom.job import OWN_SCHEDULE, Batch, Job, RunLength, Settings
from legroom.requests import SAVED, SAVING
from legroom.training import checkpoint
from legroom.training.broken_off import BrokenOff, line_of, sample_of
from legroom.training.build import build_step, quicken, seed_all
from legroom.training.curve import Curve
from legroom.training.data.feed import Feed
from legroom.training.data.loader import make_loader
from legroom.training.evaluation import Evaluation, evaluate
from legroom.training.metrics import Metrics, read_utilisation
from legroom.training.progress import Progress
from legroom.training.rates import make_rates
from legroom.training.records import Evaluated, Reason, Train, Trained
from legroom.training.stopping import Judge

LOOK_SECONDS = 1.0
"""How often losses are read from the device, lines written and progress told: each look waits for the device once."""
LOOK_STEPS = 2_000
NAMED_SAMPLES = 8

PATIENCE_SECONDS = 3.0
PATIENCE_UPDATES = 3.0
"""What takes longer than so many seconds, and than so many updates on average, hangs where the run is to end."""

Doing = Literal["starting", "waiting", "updating", "evaluating", "recording", "saving"]
Beat = Callable[[str, float | None], None]
"""Told what the run is at, and the share of it that is done."""


class Run:
    """A training run: built fresh, or from its checkpoint to go on as if it had never stopped."""

    def __init__(
        self,
        job: Job,
        request: Train,
        train_data: Any,
        valid_data: Any,
        *,
        beat: Beat = lambda message, share: None,
        interrupted: Callable[[], bool] = lambda: False,
        clock: Clock = monotonic,
    ) -> None:
        self.request, self.beat, self.interrupted, self.clock = request, beat, interrupted, clock
        self.settings, self.device = Settings(**request.settings), torch.device(request.device)
        self.judge = Judge(job, request, can_evaluate=valid_data is not None)
        self.job = quicken(job, compile=request.compile, channels_last=request.channels_last)
        seed_all(self.settings.seed)
        self.update = build_step(
            self.job, self.settings, self.device, channels_last=request.channels_last, fused=request.fused
        )
        self.model, self.optimizer = self.update.model, self.update.optimizer
        self.feed = Feed(job, train_data, self.settings, self.device)
        self.valid = None if valid_data is None else _valid_loader(job, valid_data, self.settings, self.device)
        self.num_steps = self._length()
        length = RunLength(
            num_steps=self.num_steps,
            num_epochs=self.settings.num_epochs,
            batches_per_epoch=self.feed.num_batches,
            accumulation_steps=self.settings.accumulation_steps,
            in_steps=request.num_steps is not None,
        )
        self.rates = make_rates(job, self.optimizer, self.settings, length)
        self.folder = Path(request.folder) if request.folder else None
        self.metrics = Metrics(None)
        self.at = Progress()
        self.losses: list[torch.Tensor] = []
        """Of the updates since the last look, still on the device."""
        self.epoch_chance: Any = None
        """The state of chance when this epoch began."""
        self.resumed_from: int | None = None
        self.saved_step: int | None = None
        self.notes: list[str] = []
        self.curve = Curve()
        self.doing: Doing = "starting"
        self.since = clock()
        """When it began with that; of an evaluation, its last batch."""
        self.stuck_at: str | None = None

    def go(self) -> Trained:
        """Train until something ends it."""
        chance = self._resume() if self.request.resume else None
        if self.resumed_from is None:
            self._begin_anew()
        read_utilisation(self.device)  # the first reading covers no time
        self.started = self.clock() - self.at.seconds
        self.saved_at = self.looked_at = self.clock()
        self.looked = replace(self.at)
        try:
            reason = self._ended()
            while reason is None:
                reason = self._run_epoch(chance)
                chance = None
            self.feed.close()
        except BrokenOff:
            reason = self._break_off()
        return self._result(reason)

    def hurry(self, frame: FrameType | None) -> None:
        """Called by whoever wants the run to end, as often as he likes: breaks it off where it hangs in that frame."""
        if self.stuck_at is not None or self.doing == "saving":
            return  # an end is near
        if self.doing == "recording":
            return self.beat("ending", None)  # nothing of the job's that may hang
        mean = self.at.training_seconds / max(1, self.at.step)
        if self.clock() - self.since > max(PATIENCE_SECONDS, PATIENCE_UPDATES * mean):
            self.stuck_at = self._place(frame)
            raise BrokenOff(self.stuck_at)
        self.beat("ending", None)  # a sign of life

    def _place(self, frame: FrameType | None) -> str:
        """What the run is at, with sample and line where they are known."""
        match self.doing:
            case "waiting":
                batch = f"batch {self.at.position + 1:,} of epoch {self.at.epoch + 1:,}"
                return f"waiting for {self._samples(frame)}{batch}{line_of(frame)}"
            case "evaluating":
                index = sample_of(frame)
                sample = "" if index is None else f", at sample {index:,} of the validation data"
                return f"evaluating after update {self.at.step:,}{sample}{line_of(frame)}"
            case "updating":
                return f"making update {self.at.step + 1:,}{line_of(frame)}"
        return f"starting{line_of(frame)}"

    def _samples(self, frame: FrameType | None) -> str:
        samples = self.feed.samples(self.at.epoch, self.at.position)
        index = sample_of(frame)
        if index is None:
            index = self.feed.stuck_sample(samples)
        if index is not None:
            return f"sample {index} of the training data, in "
        named = ", ".join(map(str, samples[:NAMED_SAMPLES]))
        more = f" and {len(samples) - NAMED_SAMPLES:,} more" if len(samples) > NAMED_SAMPLES else ""
        return f"one of the samples {named}{more} of the training data, in " if samples else ""

    def _break_off(self) -> Reason:
        """Between two updates the model is whole and is saved; amid one, or unevaluated, the last checkpoint stands."""
        self.feed.abandon()
        if self.doing == "waiting":
            if not self._look():
                return "diverged"
            self._save()
        return "interrupted"

    def _run_epoch(self, chance: Any) -> Reason | None:
        """Updates until the epoch, or the run, ends. No update waits for the device; a look, once a second, does."""
        groups, at, clock = self._enter_epoch(chance), self.at, self.clock
        while True:
            self.doing, self.since = "waiting", (asked := clock())
            group = next(groups, None)
            self.doing, self.since = "updating", (began := clock())
            if group is None:
                return self._end_epoch()
            self.rates.before_update(at.step)
            self.losses.append(self.update(group))
            now = clock()
            at.step += 1
            at.position += len(group)
            self.rates.after_update(at.position)
            at.num_samples += self.settings.batch_size * len(group)
            at.waited_seconds += began - asked
            at.training_seconds += now - asked
            if self._is_due(now) and (reason := self._pause()):
                return reason

    def _enter_epoch(self, chance: Any) -> Iterator[list[Batch]]:
        self.doing, self.since = "starting", self.clock()
        if chance is None:
            self.epoch_chance = checkpoint.chance_state() if self.folder else None
        groups = self.feed.groups(self.at.epoch, self.at.position, self.epoch_chance)
        if chance is not None:
            checkpoint.restore_chance(chance)
        return groups

    def _is_due(self, now: float) -> bool:
        return (
            now - self.looked_at >= LOOK_SECONDS
            or len(self.losses) >= LOOK_STEPS
            or self.at.step == self.num_steps
            or self._falls(self.request.evaluate_steps)
            or self._falls(self.request.checkpoint_steps)
            or self.interrupted()
        )

    def _falls(self, every: int | None) -> bool:
        return every is not None and self.at.step % every == 0

    def _pause(self) -> Reason | None:
        """Between two updates: read the losses, evaluate and save where due, and see whether the run should end."""
        self.doing = "recording"
        if not self._look():
            return "diverged"
        if self.at.step == self.num_steps or self._falls(self.request.evaluate_steps):
            self._evaluate()
        reason = self._ended()
        is_old = self.clock() - self.saved_at >= self.request.checkpoint_seconds
        if reason or is_old or self._falls(self.request.checkpoint_steps):
            self._save()
        return reason

    def _end_epoch(self) -> Reason | None:
        self.doing = "recording"
        if self.at.position == 0:
            raise JobRaised(f"An epoch gave no batch of {self.settings.batch_size:,}. Use a smaller batch")
        if not self._look():
            return "diverged"
        self.at.epoch, self.at.position = self.at.epoch + 1, 0
        self.rates.after_epoch(self.at.epoch)
        if self.request.evaluate_steps is None:
            self._evaluate()
        self.epoch_chance = checkpoint.chance_state() if self.folder else None
        reason = self._ended()
        self._save()
        return reason

    def _ended(self) -> Reason | None:
        """Why the run should end now, if it should."""
        if self.interrupted():
            return "interrupted"
        verdict = self.judge.verdict()
        if verdict == "target":
            return "target"
        if self.at.step == self.num_steps or (self.num_steps is None and self.at.epoch >= self.settings.num_epochs):
            return "finished"
        if verdict is not None:
            return verdict
        is_spent = self.request.max_seconds is not None and self.at.seconds >= self.request.max_seconds
        return "budget" if is_spent else None

    def _look(self) -> bool:
        """Read the losses since the last look, write them down, tell progress; False where one is not finite."""
        if not self.losses:
            return True
        at, values = self.at, torch.stack(self.losses).float().tolist()
        self.losses = []
        bad = next((place for place, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            at.step -= len(values) - bad - 1
            return False
        at.last_loss = values[-1]
        at.loss_sum += sum(values)
        at.num_losses += len(values)
        self._write_down(values)
        return True

    def _write_down(self, values: list[float]) -> None:
        at, before = self.at, self.looked
        self.looked_at, self.looked = self.clock(), replace(at)
        at.seconds = self.looked_at - self.started
        self.curve.extend(values, at.step, at.seconds, self._rate)
        seconds = max(at.training_seconds - before.training_seconds, 1e-9)
        samples_per_second = (at.num_samples - before.num_samples) / seconds
        self.metrics.write(
            {
                "step": at.step,
                "epoch": at.epoch,
                "seconds": at.seconds,
                "loss": values[-1],
                "rate": self._rate(),
                "samples_per_second": samples_per_second,
                "data_wait": (at.waited_seconds - before.waited_seconds) / seconds,
                "utilisation": read_utilisation(self.device),
                "losses": values,
            }
        )
        self._tell(samples_per_second)

    def _tell(self, samples_per_second: float) -> None:
        length = f"/{self.settings.num_epochs}" if self.request.num_steps is None else ""
        parts = [f"epoch {self.at.epoch + 1}{length}", f"loss {self.at.last_loss:.4g}"]
        if self.judge.evaluations and self.judge.evaluations[-1].score is not None:
            parts.append(f"score {self.judge.evaluations[-1].score:.4g}")
        parts += [f"rate {self._rate():.3g}", f"{samples_per_second:,.0f} samples/s"]
        shares = [self.at.step / self.num_steps] if self.num_steps else []
        if self.request.max_seconds:
            shares.append(self.at.seconds / self.request.max_seconds)
        self.beat(", ".join(parts), min(1.0, max(shares, default=0.0)))

    def _evaluate(self) -> None:
        """Loss and score on the validation data, and the mean training loss since the last time."""
        found = Evaluation(loss=None, score=None)
        if self.valid is not None:
            self.doing, self.since = "evaluating", self.clock()
            found = evaluate(self.job, self.model, self._beating(self.valid), self.device, self.settings.precision)
            self.update.watch("evaluation")
        self.doing = "recording"
        at, loss, score = self.at, _finite(found.loss), _finite(found.score)
        at.seconds = self.clock() - self.started
        self.judge.evaluations.append(
            Evaluated(
                step=at.step,
                epoch=at.num_epochs(self.feed.num_batches),
                seconds=at.seconds,
                loss=loss,
                score=score,
                train_loss=at.take_train_loss(),
            )
        )
        if self.valid is not None:
            self.metrics.write({"step": at.step, "seconds": at.seconds, "valid_loss": loss, "valid_score": score})
            self._keep_best()

    def _beating(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.since = self.clock()
            self.beat("evaluating", None)
            yield batch

    def _keep_best(self) -> None:
        best = self.judge.best_now()
        if self.folder is not None and best is not None:
            name, value = best
            content = {"model": self.model.state_dict(), "step": self.at.step, name: value}
            with self._saving():
                checkpoint.save(self.folder / checkpoint.BEST_NAME, content)

    def _begin_anew(self) -> None:
        if self.request.resume:
            self.notes.append(f"There was no checkpoint in {self.folder} to go on from, so the run began anew")
        if self.folder is not None and (aside := checkpoint.set_aside(self.folder)):
            self.notes.append(f"What an earlier run left in this folder is kept in {aside}")
        self.metrics = Metrics(self.folder, tensorboard=self.request.tensorboard)

    def _save(self) -> None:
        if self.folder is None:
            return
        with self._saving():
            self.metrics.flush()
            content = {
                "format": checkpoint.FORMAT,
                "identity": dict(self.request.identity),
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict() if hasattr(self.optimizer, "state_dict") else None,
                "scaler": self.update.scaler.state_dict(),
                "rates": self.rates.state_dict(),
                "progress": asdict(self.at),
                "chance": checkpoint.chance_state(),
                "epoch_chance": self.epoch_chance,
                "evaluations": [asdict(found) for found in self.judge.evaluations],
                "curve": asdict(self.curve),
                "metrics_size": self.metrics.size,
            }
            checkpoint.save(self.folder / checkpoint.FILE_NAME, content)
        self.saved_at, self.saved_step = self.clock(), self.at.step

    @contextmanager
    def _saving(self) -> Iterator[None]:
        before, self.doing = self.doing, "saving"
        self.beat(SAVING, None)
        yield
        self.beat(SAVED, None)
        self.doing = before

    def _resume(self) -> Any:
        """Take in the checkpoint, if there is one; the state of chance to train on with."""
        assert self.folder is not None
        content = checkpoint.load(self.folder / checkpoint.FILE_NAME, self.request.identity)
        if content is None:
            return None
        self.model.load_state_dict(content["model"])
        if content["optimizer"] is not None:
            self.optimizer.load_state_dict(content["optimizer"])
        self.update.scaler.load_state_dict(content["scaler"])
        self.rates.load_state_dict(content.get("rates", {}))
        self.at = Progress(**content["progress"])
        self.epoch_chance = content["epoch_chance"]
        self.judge.evaluations = [Evaluated(**found) for found in content["evaluations"]]
        self.curve = Curve(**content.get("curve", {"last_seconds": self.at.seconds}))  # absent in older checkpoints
        self.resumed_from = self.saved_step = self.at.step
        self.metrics = Metrics(
            self.folder, size=content["metrics_size"], step=self.at.step, tensorboard=self.request.tensorboard
        )
        return content["chance"]

    def _result(self, reason: Reason) -> Trained:
        at, saved = self.at, self.folder is not None and self.saved_step is not None
        return Trained(
            stopped_because=reason,
            num_steps=at.step,
            num_epochs=at.num_epochs(self.feed.num_batches),
            num_samples=at.num_samples,
            seconds=at.seconds,
            samples_per_second=at.samples_per_second,
            data_wait_share=at.wait_share,
            evaluations=self.judge.evaluations,
            last_loss=at.last_loss,
            learning_rate=self._rate(),
            goal=self.judge.goal,
            chance=self.job.score.chance if self.job.score else None,
            resumed_from=self.resumed_from,
            checkpoint=str(self.folder / checkpoint.FILE_NAME) if self.folder and saved else None,
            checkpoint_step=self.saved_step,
            stuck_at=self.stuck_at,
            curve={name: getattr(self.curve, name) for name in ("step", "seconds", "loss", "rate")},
            notes=self._notes(),
        )

    def _notes(self) -> list[str]:
        notes = list(self.notes)
        if self.folder is not None and not hasattr(self.optimizer, "state_dict"):
            notes.append("The job keeps its optimizers to itself: a resumed run starts them anew")
        if self.job.scheduler is not None and self.settings.schedule != OWN_SCHEDULE:
            notes.append(
                f"The schedule {self.settings.schedule!r}, named for this run, moved the rate; "
                "the job's own scheduler did not (--schedule own)"
            )
        return notes

    def _rate(self, step: int | None = None) -> float:
        """Of that update since the last look, or of the last one, for the first group of parameters."""
        rate = self.rates.last(self.at.step if step is None else step)
        return self.settings.learning_rate if rate is None else rate

    def _length(self) -> int | None:
        """Updates of the whole run; None where the length of an epoch is unknown."""
        if self.request.num_steps is not None:
            return self.request.num_steps
        if self.feed.steps_per_epoch is not None:
            return self.feed.steps_per_epoch * self.settings.num_epochs
        if self.settings.schedule not in ("constant", OWN_SCHEDULE):
            raise UsageError(
                f"The length of an epoch is unknown, so the schedule {self.settings.schedule!r} has no end to aim at. "
                "Give the run's length with --steps, or Job.num_samples"
            )
        return None


def _valid_loader(job: Job, dataset: Any, settings: Settings, device: torch.device) -> Iterable[Batch]:
    """Validation batches. A job's own layout is judged at its own batch size: perplexity depends on the columns."""
    size = job.baseline.batch_size if job.loader else settings.batch_size
    return make_loader(
        job,
        dataset,
        replace(settings, batch_size=size),
        train=False,
        device=device,
        generator=torch.Generator(),
        persistent=False,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
