"""The factors of the time to a target, from the answers: what a pass, a batch and an update take.

    step = A * pass(B, W) + update

pass(B, 0) = compute(B) + load(B) by the first looks of `speed` and the preparation of `loading`. What the training loop
adds to that, seen in a run by the job's own settings, is `update`; it cannot be more than a share of a pass, so the
rest is how much slower or faster the machine was then, and scales compute. At a batch where `loading` ran loader and
step together, or where `rate` trained, these are heard as well, and by how much they differ is the doubt.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from legroom.laws.time_to_target import compute_seconds, joined_spread, load_seconds, pass_seconds, step_seconds
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.plan.evidence import middle_run
from legroom.questions.plan.records import OwnRun, PlanQuestion

MOST_OVERHEAD = 0.3
"""Of a pass, that a training loop may take besides."""
LEAST_DOUBT = 1.08
"""Of the seconds of a step, as a factor: a machine that ran it once runs it so much faster or slower the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds of an update by batch size and workers."""

    sizes: list[float]
    seconds: list[float]
    """Compute of a pass at these sizes."""
    inline_seconds: float = 0.0
    worker_seconds: float = 0.0
    contention: float = 0.0
    coherence: float = 0.0
    core_seconds: float = 0.0
    """Of loading one sample; see laws/time_to_target.load_seconds."""
    update: float = 0.0
    num_devices: int = 1
    """That share the cores of one host, each with so many workers."""

    def load_seconds(self, batch_size: float, num_workers: int) -> float:
        """Of loading the batch of a pass."""
        return load_seconds(
            batch_size * self.num_devices,
            num_workers * self.num_devices,
            self.inline_seconds / self.num_devices,
            self.worker_seconds,
            self.contention,
            self.coherence,
            self.core_seconds,
        )

    def pass_seconds(self, batch_size: float, num_workers: int) -> float:
        """Of a pass with its batch."""
        compute = compute_seconds(batch_size, self.sizes, self.seconds)
        return pass_seconds(compute, self.load_seconds(batch_size, num_workers), num_workers)

    def step(self, batch_size: float, num_workers: int, num_passes: int = 1, exposed: float = 0.0) -> float:
        """Of an update."""
        return step_seconds(num_passes, self.pass_seconds(batch_size, num_workers), self.update, exposed)

    def on(self, num_devices: int, slowdown: float) -> "Pace":
        """The same on each of several devices, where a pass takes so many times as long."""
        return replace(self, num_devices=num_devices, seconds=[slowdown * seconds for seconds in self.seconds])

    def loading(self, share: float) -> "Pace":
        """The same with that share of the seconds that loading takes."""
        return replace(
            self,
            inline_seconds=share * self.inline_seconds,
            worker_seconds=share * self.worker_seconds,
            core_seconds=share * self.core_seconds,
        )

    def through(self, batch_size: int, num_workers: int, seconds: float) -> "Pace":
        """The same with the compute at that batch such that an update of one pass takes those seconds.

        Loading that would alone take longer than those did was disturbed, and so was what an update costs besides.
        """
        load = self.load_seconds(batch_size, num_workers)
        share = min(1.0, seconds / (load + self.update)) if load + self.update else 1.0
        pace = replace(self.loading(share), update=share * self.update)
        compute = max(1e-9, seconds - pace.update - (share * load if num_workers < 1 else 0.0))
        points = {**dict(zip(self.sizes, self.seconds, strict=True)), batch_size: compute}
        sizes = sorted(points)
        return replace(pace, sizes=sizes, seconds=[points[size] for size in sizes])


def pace_of(question: PlanQuestion) -> Pace | None:
    """The pace by all that was timed; None where nothing was."""
    pace = timed_pace(question)
    if pace is None:
        return None
    run = middle_run(question.runs)
    pace = _with_loading(pace, question.loading, run)
    return pace if run is None else calibrated(pace, run)


def timed_pace(question: PlanQuestion) -> Pace | None:
    """The pace of steps alone, as `speed` timed them."""
    if question.speed is None:
        return None
    points = sorted((float(point["batch_size"]), float(point["median_seconds"])) for point in question.speed.points)
    # A larger batch takes no less: a look that took longer than one at a larger batch was disturbed.
    seconds = [min(later for _, later in points[place:]) for place in range(len(points))]
    return Pace(sizes=[size for size, _ in points], seconds=seconds)


def _with_loading(pace: Pace, answers: Sequence[LoadingAnswer], run: OwnRun | None) -> Pace:
    """What loading a sample takes, by the newest answer; else by what the job's own run waited for, without workers."""
    if not answers:
        waited = run.wait_seconds if run and run.num_workers == 0 else None
        return replace(pace, inline_seconds=waited / run.batch_size / run.num_passes) if run and waited else pace
    parts, law, size = answers[0].batch_seconds, answers[0].law, answers[0].batch_size
    return replace(
        pace,
        inline_seconds=parts.get("preparation", 0.0) / size,
        worker_seconds=parts.get("one_worker", 0.0) / size,
        contention=law.get("contention", 0.0),
        coherence=law.get("coherence", 0.0),
        core_seconds=1 / law["ceiling"] if law.get("ceiling") else 0.0,
    )


def calibrated(pace: Pace, run: OwnRun) -> Pace:
    """The pace as the training loop has it."""
    model = run.num_passes * pace.pass_seconds(run.batch_size, run.num_workers)
    update = min(MOST_OVERHEAD * model, max(0.0, run.step_seconds - model))
    scale = (run.step_seconds - update) / model
    return replace(pace.loading(scale), update=update, seconds=[scale * seconds for seconds in pace.seconds])


def heard(question: PlanQuestion, pace: Pace, batch_size: int, num_workers: int) -> list[float]:
    """Seconds of an update of one pass at that batch, by each that tells them.

    A larger batch takes no less: what took longer than one by the pace was disturbed.
    """
    found = [pace.step(batch_size, num_workers)]
    for answer in question.loading:
        if (answer.batch_size, answer.num_workers) == (batch_size, num_workers) and answer.samples_per_second:
            found.append(batch_size / answer.samples_per_second + pace.update)
    trial_workers = question.trial_workers
    if trial_workers is None:
        trial_workers = int(question.baseline["num_workers"])
    if batch_size in question.paces and num_workers == trial_workers:
        found.append(question.paces[batch_size])
    most = min((pace.step(size, num_workers) for size in pace.sizes if size > batch_size), default=math.inf)
    return [min(seconds, most) for seconds in found]


def joined(question: PlanQuestion, pace: Pace, batch_size: int, num_workers: int) -> tuple[Pace, float]:
    """The pace through the middle of what is heard at a batch, and by which factor that may be off."""
    found = heard(question, pace, batch_size, num_workers)
    middle = math.exp(statistics.fmean(map(math.log, found))) if len(found) < 3 else statistics.median(found)
    doubt = math.sqrt(max(found) / min(found)) if len(found) > 1 else 1.0
    return pace.through(batch_size, num_workers, middle), joined_spread(LEAST_DOUBT, doubt)
