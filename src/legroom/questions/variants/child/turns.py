"""Times updates with and without a change of settings, in turns on the same batches, and trains with each."""

import math
from collections.abc import Sequence

import torch

from legroom.child.built_job import BuiltJob
from legroom.child.step_timer import open_timer
from legroom.job import Batch, Settings
from legroom.questions.variants.child.arm import Arm
from legroom.questions.variants.child.limits import TooLong, cold, impossible, limited, words_of
from legroom.questions.variants.records import BLOWN_UP, TimeVariant, TrainVariant, VariantLosses, VariantTimed
from legroom.training.data.batch import move
from legroom.training.records import Train
from legroom.training.trainer import Trainer

TURN_SECONDS = 0.12
"""A turn is long against one of the scheduler, which on shared cores is 16 ms."""
FEWEST_PAIRS, MOST_PAIRS = 4, 15
NUM_UNEVEN = 4
"""Batches, where samples differ in length."""
LOOK_STEPS = 8
"""Updates after which losses are read: one that is no number ends the training."""


def time_variant(request: TimeVariant, built: BuiltJob) -> VariantTimed:
    """Both kinds of steps in turns. What the job itself raises passes; what the change alone raises is its outcome."""
    own, device = Settings(**request.settings), torch.device(request.device)
    changed = Settings(**{**request.settings, **request.changes})
    built.forget_model()
    timer, batches = open_timer(device), _batches(built, own, device)
    mine = Arm(built.job, own, batches, timer, request.device)
    mine.warm_up()
    built.beat("the job's own step")
    if why := impossible(built.job, mine.step, own, changed):
        return VariantTimed(outcome="impossible", why=why)
    try:
        with limited(request.limit_seconds), cold(changed):
            other = Arm(built.job, changed, batches, timer, request.device)
            other.warm_up()
            start = _start(built, mine, other, batches)
        own_seconds, variant_seconds = _turns(built, mine, other, request.seconds)
    except TooLong:
        return VariantTimed(outcome="too_long", why=f"its first update took longer than {request.limit_seconds:.0f} s")
    except (torch.OutOfMemoryError, MemoryError):
        return request.on_out_of_memory()
    except Exception as error:  # whatever a change breaks, the job without it ran
        return VariantTimed(outcome="failed", why=words_of(error))
    return VariantTimed(
        own_seconds=own_seconds,
        variant_seconds=variant_seconds,
        start_seconds=start,
        own_peak_bytes=mine.peak_bytes,
        variant_peak_bytes=other.peak_bytes,
    )


def _batches(built: BuiltJob, settings: Settings, device: torch.device) -> list[Batch]:
    """The same for both kinds, on the device."""
    source = built.train
    if source.uneven:
        found = source.shuffled(settings.batch_size, NUM_UNEVEN, settings.seed)
    else:
        found = [next(source.batches(settings.batch_size, "typical"))]
    return [move(batch, device) for batch in found]


def _start(built: BuiltJob, mine: Arm, other: Arm, batches: Sequence[Batch]) -> float:
    """What the change takes once: its first update, and where it compiles the first evaluations, the last of which is a
    smaller batch."""
    once = other.first_seconds - other.step_seconds
    if other.settings.compile and built.job.valid_data is not None:
        half = next(built.train.batches(max(1, mine.settings.batch_size // 2), "typical"))
        evaluated = [batches[0], move(half, mine.device)]
        once += other.evaluate(evaluated) - mine.evaluate(evaluated)
    return max(0.0, once - max(0.0, mine.first_seconds - mine.step_seconds))


def _turns(built: BuiltJob, mine: Arm, other: Arm, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of an update in each turn; who begins changes from pair to pair, so that drift falls on both."""
    lengths = {arm: max(1, math.ceil(TURN_SECONDS / arm.step_seconds)) for arm in (mine, other)}
    pair = sum((num + 1) * arm.step_seconds for arm, num in lengths.items())
    found: dict[Arm, list[float]] = {mine: [], other: []}
    for place in range(max(FEWEST_PAIRS, min(MOST_PAIRS, int(seconds / pair)))):
        for arm in (mine, other) if place % 2 == 0 else (other, mine):
            found[arm].append(arm.turn(lengths[arm]))
        built.beat("steps in turns")
    return found[mine], found[other]


def train_variant(request: TrainVariant, built: BuiltJob) -> VariantLosses:
    """The losses of a fresh training. What a change alone raises is its outcome."""
    built.forget_model()
    try:
        return VariantLosses(losses=_losses(request, built))
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if not request.changes:
            raise
        return VariantLosses(losses=[BLOWN_UP], why=words_of(error))


def _losses(request: TrainVariant, built: BuiltJob) -> list[float]:
    train = Train(device=request.device, settings={**request.settings, **request.changes}, num_steps=request.num_steps)
    trainer = Trainer(built.job, train, built.train.dataset)
    losses: list[float] = []
    try:
        while len(losses) < request.num_steps and not (losses and losses[-1] == BLOWN_UP):
            losses += _read(list(trainer.updates(min(LOOK_STEPS, request.num_steps - len(losses)))))
            built.beat("training", len(losses) / request.num_steps)
    finally:
        trainer.feed.close()
    return losses


def _read(losses: list[torch.Tensor]) -> list[float]:
    """The losses up to the first that is no number, which stands for all that would follow."""
    found = torch.stack([loss.float() for loss in losses]).tolist()
    place = next((place for place, loss in enumerate(found) if not math.isfinite(loss)), None)
    return found if place is None else [*found[:place], BLOWN_UP]
