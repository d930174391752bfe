"""What a training run came to: read off its record."""

from dataclasses import asdict

from legroom.errors import Diverged, UsageError
from legroom.laws.chance import leaves_chance
from legroom.logbook import Records
from legroom.questions.train.answer import TrainAnswer
from legroom.questions.train.until_target import cooldown_notes
from legroom.requests import JobDescription
from legroom.training.records import Train, Trained
from legroom.training.stopping import first_near_minimum, reaches

SLOW_WAIT = 0.1
"""Share of the time spent waiting for batches that is worth a word."""
MIN_SECONDS = 5.0
"""Shorter runs are mostly start: their waiting says little."""


def advise(records: Records, request: Train) -> TrainAnswer:
    """The answer for that run; a loss that is no number is an error that says where it happened."""
    found: list[Trained] = [entry.result for entry in records.entries if entry.request == request]
    if not found:
        raise UsageError("The logbook does not say what this run came to. Let it go on with legroom train --resume")
    trained = found[-1]
    if trained.stopped_because == "diverged":
        raise _diverged(trained)
    description = records.description()
    scores = [found.score for found in trained.evaluations if found.score is not None]
    losses = [found.loss for found in trained.evaluations if found.loss is not None]
    near = first_near_minimum(losses)
    best = (max if trained.goal == "max" else min)(scores) if scores else None
    left = _left_chance(best, len(scores), description, trained)
    return TrainAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[
            *records.notes,
            *description.notes,
            *trained.notes,
            *_notes(request, trained),
            *cooldown_notes(request, trained),
            *_chance_notes(best, left, trained),
        ],
        device=request.device,
        stopped_because=trained.stopped_because,
        final_score=scores[-1] if scores else None,
        final_loss=losses[-1] if losses else trained.last_loss,
        best_score=best,
        chance=trained.chance,
        left_chance=left,
        num_steps=trained.num_steps,
        num_epochs=trained.num_epochs,
        num_steps_to_one_percent=None if near is None else trained.evaluations[near].step,
        seconds_to_target=_seconds_to_target(request, trained),
        train_seconds=trained.seconds,
        samples_per_second=trained.samples_per_second,
        data_wait_share=trained.data_wait_share,
        learning_rate=trained.learning_rate,
        resumed_from=trained.resumed_from,
        checkpoint=trained.checkpoint,
        target=request.target,
        settings=dict(request.settings),
        evaluations=[asdict(found) for found in trained.evaluations],
        cooldowns=[asdict(each) for each in trained.cooldowns],
        num_missed_steps=sum(each.num_steps for each in trained.cooldowns if not each.reached),
        curve=dict(trained.curve),
    )


def _seconds_to_target(request: Train, trained: Trained) -> float | None:
    if request.target is None:
        return None
    name, value = request.target
    goal = "min" if name == "loss" else trained.goal or "max"
    hits = (found.seconds for found in trained.evaluations if reaches(getattr(found, name), value, goal=goal))
    return next(hits, None)


def _notes(request: Train, trained: Trained) -> list[str]:
    notes = [*_update_notes(request), *request.notes]
    if trained.resumed_from == trained.num_steps:
        notes.append("The run had ended before; nothing was trained further")
    elif trained.resumed_from is not None:
        notes.append(f"Went on from update {trained.resumed_from:,}")
    if trained.stuck_at is not None:
        notes.append(f"Broken off while {trained.stuck_at}, which did not end")
    if trained.stopped_because == "interrupted" and trained.checkpoint is None:
        notes.append("Interrupted before there was anything to save")
    elif trained.stopped_because == "interrupted":
        notes.append("Interrupted; --resume goes on from the checkpoint")
    if request.target is not None and _seconds_to_target(request, trained) is None:
        notes.append(f"The target {request.target[0]}={request.target[1]:g} was not reached{_best(request, trained)}")
    if trained.data_wait_share > SLOW_WAIT and trained.seconds > MIN_SECONDS:
        notes.append(
            f"{trained.data_wait_share:.0%} of the training time went into waiting for batches; "
            "legroom loading finds what would feed it"
        )
    return notes


def _update_notes(request: Train) -> list[str]:
    """What an update is made of, where several devices share it."""
    if not request.several:
        return []
    batch, passes, num = (int(request.settings[name]) for name in ("batch_size", "accumulation_steps", "num_devices"))
    joined = "" if passes == 1 else f" in {passes} passes"
    return [f"An update is of {batch * passes * num:,} samples: {batch * passes:,} on each of {num} devices{joined}"]


def _best(request: Train, trained: Trained) -> str:
    """The nearest that it came to its target, and when."""
    assert request.target is not None
    name = request.target[0]
    known = [(getattr(found, name), found.step) for found in trained.evaluations if getattr(found, name) is not None]
    if not known:
        return ""
    value, step = max(known) if name == "score" and trained.goal == "max" else min(known)
    return f"; the best was {value:.5g}, after update {step:,}"


def _left_chance(best: float | None, num_looks: int, description: JobDescription, trained: Trained) -> bool | None:
    if best is None or trained.chance is None or trained.goal is None:
        return None
    num_samples = description.num_valid_samples
    return leaves_chance(best, trained.chance, goal=trained.goal, num_samples=num_samples, num_looks=num_looks)


def _chance_notes(best: float | None, left: bool | None, trained: Trained) -> list[str]:
    if left is not False:
        return []
    return [
        f"The score never left chance: its best is {best:.4g}, and a model that learned nothing scores "
        f"{trained.chance:.4g}. Take this model for an untrained one: train longer, or change the rate"
    ]


def _diverged(trained: Trained) -> Diverged:
    kept = (
        f"The last good checkpoint is of update {trained.checkpoint_step:,}: {trained.checkpoint}"
        if trained.checkpoint
        else "No checkpoint had been written yet"
    )
    return Diverged(
        f"The loss of update {trained.num_steps:,} is no finite number; the rate was {trained.learning_rate:.3g}. "
        f"{kept}. Lower the rate, warm it up, or clip the gradient's norm",
        facts={
            "step": trained.num_steps,
            "learning_rate": trained.learning_rate,
            "checkpoint": trained.checkpoint,
            "checkpoint_step": trained.checkpoint_step,
        },
    )
