"""Trunks and branches of the job in this process: each is grown once, held, and left by copies."""

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from legroom.child.built_job import BuiltJob
from legroom.clock import monotonic
from legroom.job import Job
from legroom.questions.rate.climb import Climb
from legroom.questions.rate.records import (
    BranchBatch,
    Grown,
    GrowTrunk,
    LearnRequest,
    RampRate,
    RateRamp,
    RunTrial,
    Shape,
    Trial,
    update_size,
)
from legroom.training.branches import Trunk
from legroom.training.data.part import part_of
from legroom.training.loop import Run
from legroom.training.metrics import read_utilisation
from legroom.training.noise import NoiseMeter
from legroom.training.optimizers.lamb import Lamb
from legroom.training.optimizers.lars import Lars
from legroom.training.records import Evaluated, Train, Trained
from legroom.training.rng import restore_rng, rng_state

BLOWN_UP = 10.0
"""Times the first losses of a ramp: it has diverged."""
FIRST_LOSSES = 5
MOST_HELD = 6
"""Trunks held at a time; others are grown anew."""
TOO_MUCH = (torch.OutOfMemoryError, MemoryError)


@dataclass
class HeldTrunk:
    """A trunk, and how far it is."""

    trunk: Trunk
    meter: NoiseMeter
    step: int = 0
    diverged: bool = False
    rng: Mapping[str, Any] | None = None
    """Random numbers as it left them: other trunks draw from the same."""


def ramp_rate(request: RampRate, built: BuiltJob) -> RateRamp:
    """Losses while the rate climbs; it ends where they blow up."""
    started, trunk = monotonic(), _new_trunk(request, built)
    own, climb = float(request.settings["learning_rate"]), Climb(request)
    try:
        losses = trunk.ramp(lambda step: climb.at(step) / own, request.num_steps, climb.until_there(_blows_up))
    finally:
        trunk.close()
    return RateRamp(
        rates=climb.rates[: len(losses)],
        losses=[loss if math.isfinite(loss) else 1e30 for loss in losses],
        diverged=_blows_up(losses),
        num_samples=len(losses) * update_size(request.settings),
        seconds=monotonic() - started,
        steps_per_epoch=trunk.trainer.feed.steps_per_epoch,
    )


def grow_trunk(request: GrowTrunk, built: BuiltJob) -> Grown:
    """The trunk grown to that update, and a copy of it cooled down and evaluated."""
    num_steps, cool = request.cooldown_steps, cooling(0, request.cooldown_steps, request.shape)

    def leave() -> Grown:
        return _leave(request, built, request.to_step, num_steps=num_steps, schedule=cool)

    return _with_room(request, built, leave)


def branch_batch(request: BranchBatch, built: BuiltJob) -> Grown:
    """A copy of the trunk that goes on with another batch size and rate."""
    own = float(request.settings["learning_rate"])
    cool = cooling(request.num_steps - request.cooldown_steps, request.cooldown_steps, request.shape)

    def leave() -> Grown:
        return _leave(
            request,
            built,
            request.from_step,
            num_steps=request.num_steps,
            schedule=lambda step: request.learning_rate / own * cool(step),
            passes=(request.batch_size, request.accumulation_steps),
        )

    return _with_room(request, built, leave)


def _with_room(request: GrowTrunk | BranchBatch, built: BuiltJob, leave: Callable[[], Grown]) -> Grown:
    """The answer; where memory runs out beside other trunks, they are let go, fewer are held, and it is tried again.

    Not within the `except`: its traceback would hold what has to go.
    """
    trunks: dict[str, HeldTrunk] = built.kept.setdefault("trunks", {})
    try:
        return leave()
    except TOO_MUCH:
        num_others = len(trunks) - (_name(request) in trunks)
        if num_others == 0:
            raise
    built.kept["most_trunks"] = num_others
    for held in trunks.values():
        held.trunk.close()
    trunks.clear()
    built.forget_model()
    return leave()


def run_trial(request: RunTrial, built: BuiltJob) -> Trial:
    """A whole run. It dies with an interrupt: what it would save is no answer."""
    built.forget_model()
    train = Train(
        device=request.device,
        settings=request.settings,
        evaluate_steps=request.evaluate_steps,
        max_seconds=request.max_seconds,
        patience=request.patience,
        watch=request.watch,
    )
    data, job = _data(request, built), with_solver(built.job, request)
    loop = Run(job, train, data, built.valid.dataset, beat=built.beat)
    with Busyness(request.device) as busy:
        run = loop.go()
    return Trial(
        stopped_because=run.stopped_because,
        num_steps=run.num_steps,
        num_samples=run.num_samples,
        seconds=run.seconds,
        samples_per_second=run.samples_per_second,
        data_wait_share=run.data_wait_share,
        evaluations=[*run.evaluations, *_last_look(loop, run, built)],
        utilisation=busy.share,
    )


def _last_look(loop: Run, run: Trained, built: BuiltJob) -> list[Evaluated]:
    """What a run stands at that its time limit ended between two evaluations: it may have had none."""
    seen = [found.step for found in run.evaluations]
    if run.stopped_because != "budget" or loop.valid is None or not run.num_steps or run.num_steps in seen:
        return []
    found = loop.valid.evaluate(loop.model, lambda: built.beat("evaluating", None))
    seen_last = Evaluated(
        step=run.num_steps,
        epoch=run.num_epochs,
        seconds=run.seconds,
        loss=found.loss,
        score=found.score,
        train_loss=None,
    )
    return [seen_last]


class Busyness:
    """How busy the device is meanwhile: readings of a GPU ten times a second; of a CPU its seconds in this process."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.share: float | None = None
        self._readings: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Busyness":
        self._since, self._before = monotonic(), time.process_time()
        if self.device.type == "cuda":
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self.device.type == "cuda":
            self._thread.join()
            self.share = sum(self._readings) / len(self._readings) if self._readings else None
        else:
            wall = (monotonic() - self._since) * torch.get_num_threads()
            self.share = min(1.0, (time.process_time() - self._before) / wall) if wall else None

    def _read(self) -> None:
        while not self._over.wait(0.1):
            if (share := read_utilisation(self.device)) is not None:
                self._readings.append(share)


def cooling(constant_steps: int, cooldown_steps: int, shape: Shape) -> Callable[[int], float]:
    """Factor on the rate: 1, then down to 0 in a line, or as 1 minus the root of the share that is over.

    >>> [cooling(2, 2, "linear")(step) for step in range(5)]
    [1.0, 1.0, 1.0, 0.5, 0.0]
    """

    def factor(step: int) -> float:
        share = min(1.0, max(0.0, (step - constant_steps) / max(1, cooldown_steps)))
        return 1 - (share if shape == "linear" else math.sqrt(share))

    return factor


def _leave(
    request: GrowTrunk | BranchBatch,
    built: BuiltJob,
    to_step: int,
    *,
    num_steps: int,
    schedule: Callable[[int], float],
    passes: tuple[int, int] | None = None,
) -> Grown:
    """Grow the trunk where it has to be, run the branch, and say what both came to."""
    started, own = monotonic(), update_size(request.settings)
    batch_size, accumulation_steps = passes or (None, None)
    size = own if passes is None else passes[0] * passes[1]
    held, train_loss, grown, spent = _grow(request, built, to_step)
    if held.diverged:
        return Grown(diverged=True, num_steps=to_step, paid_samples=grown * own, seconds=monotonic() - started)
    small, big = held.meter.take()
    (found,) = held.trunk.branch(
        schedule=schedule, num_steps=num_steps, batch_size=batch_size, accumulation_steps=accumulation_steps
    )
    diverged = found.train_loss is not None and not math.isfinite(found.train_loss)
    return Grown(
        diverged=diverged,
        loss=found.loss,
        score=found.score,
        train_loss=train_loss,
        num_steps=to_step + num_steps,
        num_samples=to_step * own + num_steps * size,
        paid_samples=grown * own + num_steps * size,
        seconds=monotonic() - started,
        grown_steps=grown,
        grown_seconds=spent,
        noise_sizes=held.meter.sizes if small else None,
        small_squares=small,
        big_squares=big,
    )


def _grow(
    request: GrowTrunk | BranchBatch, built: BuiltJob, to_step: int
) -> tuple[HeldTrunk, float | None, int, float]:
    """The trunk at that update, its latest mean loss, and how many updates and seconds that took now."""
    held = _held(request, built, to_step)
    before = held.step
    if held.rng is not None:
        restore_rng(held.rng)
    started = monotonic()
    losses = held.trunk.advance(to_step - before) if not held.diverged else []
    spent = monotonic() - started  # the losses have been read, so a GPU has done its work
    held.step, held.rng = to_step, rng_state()
    held.diverged = held.diverged or not math.isfinite(sum(losses))
    tail = losses[-max(1, to_step // 10) :]
    mean = sum(tail) / len(tail) if tail and not held.diverged else None
    return held, mean, len(losses), spent


def _held(request: LearnRequest[Any], built: BuiltJob, to_step: int) -> HeldTrunk:
    """The trunk as it was left; a new one where it has gone further, or is unknown."""
    trunks: dict[str, HeldTrunk] = built.kept.setdefault("trunks", {})
    name = _name(request)
    held = trunks.pop(name, None)
    if held is None or held.step > to_step:
        if held is not None:
            held.trunk.close()
        while len(trunks) >= built.kept.get("most_trunks", MOST_HELD):
            trunks.pop(next(iter(trunks))).trunk.close()
        trunk = _new_trunk(request, built)
        warm = int(request.settings["warmup_steps"])
        held = HeldTrunk(trunk, NoiseMeter(trunk.trainer, first_step=warm))
    trunks[name] = held  # the last in the dictionary is the last used
    return held


def _new_trunk(request: LearnRequest[Any], built: BuiltJob) -> Trunk:
    built.forget_model()
    train = Train(device=request.device, settings=request.settings)
    job = with_solver(built.job, request)
    return Trunk(job, train, _data(request, built), built.valid.dataset, beat=built.beat)


def _data(request: LearnRequest[Any], built: BuiltJob) -> Any:
    return part_of(built.train.dataset, request.fraction, own_loader=built.job.loader is not None)


def with_solver(job: Job, request: LearnRequest[Any]) -> Job:
    """The job with another optimizer over the same groups, or with other betas, where the request says so."""
    make = job.optimizer
    assert make is not None, "a job with its own step is refused before it comes here"

    def optimizer(model: Any, rate: float) -> Any:
        made = make(model, rate)
        for group in made.param_groups:
            group.update({} if request.betas is None else {"betas": tuple(request.betas), "eps": request.eps})
        return made if request.solver == "own" else _another(request.solver, made)

    return job if request.solver == "own" and request.betas is None else replace(job, optimizer=optimizer)


def _another(solver: str, made: Any) -> Any:
    """LARS or LAMB over the groups of an optimizer, with their rates and weight decay; vectors keep a plain step."""
    decay = [float(group.get("weight_decay", 0.0)) for group in made.param_groups]
    groups = [
        {"params": params, "lr": group["lr"], "weight_decay": weight_decay, "adapt": adapt}
        for group, weight_decay in zip(made.param_groups, decay, strict=True)
        for adapt in (True, False)
        if (params := [each for each in group["params"] if (each.dim() > 1) is adapt])
    ]
    rate = float(made.param_groups[0]["lr"])
    return Lamb(groups, rate) if solver == "lamb" else Lars(groups, rate, eta=1.0)


def _name(request: LearnRequest[Any]) -> str:
    solver = [request.solver, request.betas, request.eps]
    words = json.dumps([dict(request.settings), request.fraction, request.device, *solver], sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _blows_up(losses: list[float]) -> bool:
    first = sorted(losses[:FIRST_LOSSES])[len(losses[:FIRST_LOSSES]) // 2]
    return not math.isfinite(losses[-1]) or losses[-1] > BLOWN_UP * max(first, 1e-12)
