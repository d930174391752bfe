"""The one training loop: every run, trial and proof goes through it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from legroom.clock import Clock, monotonic
from legroom.job import OWN_SCHEDULE, Job
from legroom.training.checkpoint import RunFiles
from legroom.training.evaluation import Evaluation, Validation
from legroom.training.hanging import BrokenOff, Hurry
from legroom.training.metrics import Recorder
from legroom.training.progress import Curve
from legroom.training.ranks import ONE_RANK, OneRank
from legroom.training.records import Evaluated, Reason, Train, Trained
from legroom.training.state import RunState
from legroom.training.stopping import Stopping
from legroom.training.trainer import Beat, Trainer
from legroom.training.until_target import StraightOn, UntilTarget


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
        ranks: OneRank = ONE_RANK,
    ) -> None:
        self.request, self.beat, self.interrupted, self.clock = request, beat, interrupted, clock
        self.stopping = Stopping(job, request, can_evaluate=valid_data is not None)
        self.trainer, self.ranks = Trainer(job, request, train_data, clock, ranks), ranks
        self.update, self.model, self.optimizer = self.trainer.update, self.trainer.model, self.trainer.optimizer
        self.valid = None
        if valid_data is not None:
            self.valid = Validation(self.trainer.job, valid_data, self.trainer.settings, self.trainer.device, ranks)
        self.files = RunFiles(request, self.trainer, beat)
        self.hurry = Hurry(self.trainer, beat)
        self.recorder = Recorder(self.trainer, self._write, beat, request.max_seconds)
        self.course: StraightOn | UntilTarget = StraightOn()
        if request.until_target:
            self.course = UntilTarget(request, self.trainer, self.recorder, self.stopping.goal, valid_data)
        self.resumed_from: int | None = None

    def go(self) -> Trained:
        """Train until something ends it. No update waits for the device; a look, once a second, does."""
        self._begin()
        try:
            if self.course.evaluates_start and not self.stopping.evaluations:
                self._evaluate()
            reason = self._reason()
            while reason is None:
                loss = self.trainer.next_update()
                if loss is None:
                    reason = self._end_epoch()
                else:
                    self.recorder.add(loss)
                    reason = self._pause() if self._is_due() else None
            self.trainer.feed.close()
        except BrokenOff:
            reason = self._break_off()
        return self._result(reason)

    def _begin(self) -> None:
        """Take in the checkpoint, if there is one to go on from, and start the clocks."""
        content = self.ranks.share(self.files.open(), self.model, self.optimizer)
        if content is not None:
            self.trainer.restore(RunState.from_file(content))
            self.trainer.rebase(content["identity"].get("settings", {}))
            self.resumed_from = self.trainer.at.step
            self.stopping.evaluations = [Evaluated(**found) for found in content["evaluations"]]
            seconds = {"last_seconds": self.trainer.at.seconds}  # older checkpoints have no curve
            self.recorder.curve = Curve(**content.get("curve", seconds))
            self.course.restore(content.get("course", {}))
        self.ranks.settle(self.trainer.settings.seed, content)
        self.recorder.start()

    def _is_due(self) -> bool:
        """Whether there is more to do after this update than the next."""
        return (
            self.ranks.is_due(self.recorder)
            or self._must_evaluate()
            or self._falls(self.request.checkpoint_steps)
            or self.interrupted()
        )

    def _must_evaluate(self) -> bool:
        return (
            self.trainer.at.step == self.trainer.length.num_steps
            or self._falls(self.request.evaluate_steps)
            or self.course.is_due()
        )

    def _falls(self, every: int | None) -> bool:
        return every is not None and self.trainer.at.step % every == 0

    def _pause(self) -> Reason | None:
        """Between two updates: read the losses, evaluate and save where due, and see whether the run should end."""
        if not self._look():
            return "diverged"
        evaluates = self._must_evaluate()
        if evaluates:
            self._evaluate()
        reason = self._reason()
        if evaluates and reason not in ("target", "finished"):
            self.course.turn(self.stopping.evaluations[-1])
        is_old = self.ranks.first(self.clock() - self.files.saved_at >= self.request.checkpoint_seconds)
        if reason or is_old or self._falls(self.request.checkpoint_steps):
            self._save()
        return reason

    def _end_epoch(self) -> Reason | None:
        self.trainer.doing = "recording"
        if not self._look():
            return "diverged"
        self.trainer.end_epoch()
        if self.request.evaluate_steps is None and not self.course.evaluates_start:
            self._evaluate()
        reason = self._reason()
        self._save()
        return reason

    def _break_off(self) -> Reason:
        """Between two updates the model is whole and is saved; amid one, or unevaluated, the last checkpoint stands."""
        self.trainer.feed.abandon()
        if self.trainer.doing == "waiting":
            if not self._look():
                return "diverged"
            self._save()
        return "interrupted"

    def _reason(self) -> Reason | None:
        """Why the run should end now, if it should."""
        if self.interrupted():
            return "interrupted"
        return self.stopping.reason(self.trainer.at, self.trainer.length)

    def _save(self) -> None:
        evaluations = [asdict(found) for found in self.stopping.evaluations]
        more = {"course": self.course.state(), **self.ranks.state(self.model, self.optimizer)}
        self.files.save(evaluations=evaluations, curve=asdict(self.recorder.curve), **more)

    def _write(self, line: Mapping[str, Any]) -> None:
        self.files.write({**line, **self.course.mark()})

    def _look(self) -> bool:
        """Read the losses since the last look; False where one is not finite."""
        self.ranks.meet(self.recorder)
        found = self.stopping.evaluations
        return self.recorder.look(found[-1].score if found else None)

    def _evaluate(self) -> None:
        """Loss and score on the validation data, and the mean training loss since the last time."""
        found, trainer = Evaluation(loss=None, score=None), self.trainer
        if self.valid is not None:
            trainer.doing, trainer.since = "evaluating", self.clock()
            with self.ranks.evaluating(self.model):
                found = self.valid.evaluate(self.model, self._tell_evaluating)
            self.update.watch("evaluation")
        trainer.doing = "recording"
        at = trainer.at
        at.seconds = self.recorder.seconds()
        self.stopping.evaluations.append(
            Evaluated(
                step=at.step,
                epoch=at.num_epochs(trainer.feed.num_batches),
                seconds=at.seconds,
                loss=found.loss,
                score=found.score,
                train_loss=at.take_train_loss(),
            )
        )
        if self.valid is not None:
            line = {"step": at.step, "seconds": at.seconds, "valid_loss": found.loss, "valid_score": found.score}
            self._write(line)
            self.files.keep_best(self.stopping.best_now())

    def _tell_evaluating(self) -> None:
        self.trainer.since = self.clock()
        self.beat("evaluating", None)

    def _result(self, reason: Reason) -> Trained:
        at, score, found = self.trainer.at, self.trainer.job.score, self.stopping.evaluations
        return Trained(
            stopped_because=reason,
            num_steps=at.step,
            num_epochs=at.num_epochs(self.trainer.feed.num_batches),
            num_samples=at.num_samples,
            seconds=at.seconds,
            samples_per_second=at.samples_per_second,
            data_wait_share=at.wait_share,
            evaluations=self.stopping.evaluations,
            last_loss=at.last_loss,
            learning_rate=self.trainer.rate(),
            goal=self.stopping.goal,
            chance=score.chance if score else None,
            resumed_from=self.resumed_from,
            checkpoint=self.files.checkpoint,
            checkpoint_step=self.files.saved_step,
            stuck_at=self.hurry.stuck_at,
            curve={name: getattr(self.recorder.curve, name) for name in ("step", "seconds", "loss", "rate")},
            cooldowns=self.course.tried(found[-1] if found else None, reached=reason == "target"),
            notes=[*self.files.notes, *self._notes()],
        )

    def _notes(self) -> list[str]:
        notes, schedule = [], self.trainer.settings.schedule
        if self.files.folder is not None and not hasattr(self.optimizer, "state_dict"):
            notes.append("The job keeps its optimizers to itself: a resumed run starts them anew")
        if self.trainer.job.scheduler is not None and schedule != OWN_SCHEDULE:
            notes.append(
                f"The schedule {schedule!r}, named for this run, moved the rate; "
                "the job's own scheduler did not (--schedule own)"
            )
        return notes
