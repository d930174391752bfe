"""Peak host memory of the training loop at one batch size: loader processes, evaluations and enough steps included."""

import itertools
import os
import statistics
from collections.abc import Iterable
from dataclasses import asdict, replace

from legroom.child.built_job import BuiltJob
from legroom.child.meters import HostMeter
from legroom.clock import Clock, monotonic
from legroom.errors import JobRaised
from legroom.host.process_memory import resident_bytes
from legroom.laws.memory import growth
from legroom.questions.memory.records import PhasePeaks, StepPeaks
from legroom.training.loop import Run
from legroom.training.records import Train

LEAST_ROUNDS, MOST_ROUNDS = 2, 4
"""Of steps and an evaluation: what an evaluation leaves in the heap may make the next steps take more."""
LONG_SECONDS = 10.0
"""A round that ends later than this is the last, but for one step: batches so slow to train on are few in a run."""
SETTLED = 1.01
"""A round whose peak is at most this many times that of the rounds before has shown nothing new."""
SPREAD = 0.03
"""Runs of one batch differ by this share of what the batch adds: threads take turns in filling the heap."""
RATE = 1e-9
"""Memory does not depend on the learning rate, and a run that diverges would end before its peak."""
LOOK_EVERY = 2
"""Times the cost of adding up what loader processes hold, until that is done again."""


class LoopWatch:
    """Collects the peak of every phase of a run's steps and evaluations."""

    def __init__(self, num_steps: int, built: BuiltJob, clock: Clock) -> None:
        self.num_steps, self.built, self.clock = num_steps, built, clock
        self.meter = HostMeter()
        self.first_bytes = resident_bytes(os.getpid())
        """Before the batch shows."""
        self.meter.take_peak()
        self.steps: list[dict[str, int]] = [{}]
        """By phase; an evaluation belongs to the step that follows it."""
        self.ends: list[float] = [clock()]
        self.loaders: dict[str, int] = {}
        """The most that loader processes held beside this one at the end of each phase, and within evaluations."""
        self.look_at = 0.0

    def __call__(self, phase: str) -> None:
        """The phase has ended."""
        self.steps[-1][phase] = max(self.steps[-1].get(phase, 0), self.meter.take_peak())
        if phase != "evaluation":  # its loader processes have ended with it
            self._look(phase)
        if phase == "update":
            self.steps.append({})
            self.ends.append(self.clock())
        self.built.beat(phase)

    def beat(self, what: str, share: float | None) -> None:
        """The run tells what it is at: within an evaluation, its loader processes can be seen."""
        if what == "evaluating":
            if "evaluation" not in self.steps[-1]:  # what was taken since the update, its loader processes did not see
                self.steps[-1] |= {"data": self.meter.take_peak(), "evaluation": 0}
            self._look("evaluation")
        self.built.beat(what)

    def is_settled(self) -> bool:
        """Whether rounds enough have run and the last showed no peak above those before."""
        num_rounds, rest = divmod(len(self.steps) - 1, self.num_steps)
        is_long = self.clock() - self.ends[0] > LONG_SECONDS
        if (num_rounds, rest) == (1, 1):  # the step after the first evaluation
            return is_long
        if rest or num_rounds < LEAST_ROUNDS:
            return False
        if is_long:
            return True
        tops = [max(step.values(), default=0) for step in self.steps]
        return max(tops[-self.num_steps - 1 :]) <= SETTLED * max(tops[: -self.num_steps - 1])

    def peaks(self) -> dict[str, int]:
        """The largest of each phase over all steps, with what loader processes held."""
        names = {name for step in self.steps for name in step}
        return {name: max(step.get(name, 0) for step in self.steps) + self.loaders.get(name, 0) for name in names}

    def tops(self) -> list[int]:
        """The peak of each step, evaluations left out."""
        return [max(_training(step)) for step in self.steps[:-1]]

    def _look(self, phase: str) -> None:
        started = self.clock()
        if phase != "evaluation" and started < self.look_at:  # the loader processes of an evaluation live for moments
            return
        self.loaders[phase] = max(self.loaders.get(phase, 0), self.meter.loader_bytes())
        self.look_at = self.clock() + LOOK_EVERY * (self.clock() - started)


def _training(step: dict[str, int]) -> Iterable[int]:
    return (value for name, value in step.items() if name != "evaluation")


def run_loop(request: StepPeaks, built: BuiltJob, clock: Clock = monotonic) -> tuple[Run, PhasePeaks]:
    """Train as `legroom train` would until the peak has settled; the run, and the peak of each phase."""
    built.forget_model()  # the run builds its own
    train, valid = built.train.data_of_run(request.batch_size), None
    if built.job.valid_data is not None:
        valid = built.valid.data_of_run(request.batch_size, whole=False)
    watch = LoopWatch(request.num_steps, built, clock)
    run = Run(built.job, _training_request(request, built), train, valid, beat=watch.beat, interrupted=watch.is_settled)
    run.update.watch = watch
    trained = run.go()
    if trained.stopped_because == "diverged":
        raise JobRaised(
            f"The loss of step {trained.num_steps} is no finite number, with a rate of {RATE:g}. "
            "legroom needs a finite loss: look for a division by zero or for samples that hold no numbers"
        )
    return run, _peaks(watch)


def _training_request(request: StepPeaks, built: BuiltJob) -> Train:
    assert request.num_workers is not None
    settings = replace(
        built.job.baseline,
        **request.options,
        batch_size=request.batch_size,
        accumulation_steps=request.accumulation_steps,
        num_workers=request.num_workers,
        precision=request.precision,
        seed=request.seed,
        learning_rate=RATE,
        schedule="constant",
        warmup_steps=0,
    )
    num_steps = MOST_ROUNDS * request.num_steps
    return Train(
        device="cpu", settings=asdict(settings), num_steps=num_steps, evaluate_steps=request.num_steps, allocator=None
    )


def _peaks(watch: LoopWatch) -> PhasePeaks:
    tops, phases = watch.tops(), watch.peaks()
    settled = tops[1:] or tops
    return PhasePeaks(
        outcome="measured",
        phase_bytes=phases,
        spread=(max(settled) - min(settled)) / max(settled),
        num_repeats=len(tops),
        step_seconds=statistics.median(after - before for before, after in itertools.pairwise(watch.ends)),
        spare_bytes=int(SPREAD * max(0, max(phases.values()) - watch.first_bytes)),
        growth_bytes=growth(watch.steps[:-1]),
        loader_bytes=max(watch.loaders.values(), default=0),
    )
