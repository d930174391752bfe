"""What the logbook holds of training: runs by the job's own settings, and the pace of a search for a rate."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from legroom.job import Settings
from legroom.logbook import Entry, RunStarted, read_lines
from legroom.questions.plan.records import OwnRun
from legroom.questions.rate.records import Grown, GrowTrunk, RunTrial, Trial
from legroom.requests import JobDescription
from legroom.training.records import Evaluated, Train, Trained

FEWEST_PACED = 100
"""Updates below which a pace is told by what surrounds them."""
Target = tuple[Literal["loss", "score"], float]


def current_entries(path: Any, now: RunStarted, torch_version: str, *, fresh: bool = False) -> list[Entry]:
    """All entries in the logbook of the same file of the job on the same machine, with the same torch and legroom,
    whoever asked for them; fresh: those of this plan alone."""
    heads, entries, _ = read_lines(path)
    versions, current = torch_versions(heads, entries), (now.digest, now.machine, now.legroom_version)
    same = {
        head.run
        for head in heads
        if (head.digest, head.machine, head.legroom_version) == current
        if versions.get(head.run, torch_version) == torch_version
        if head.together == now.together or not fresh
    }
    return [entry for entry in entries if entry.run in same]


def torch_versions(heads: Sequence[RunStarted], entries: Sequence[Entry]) -> Mapping[str, str]:
    """The torch that a run had, as far as it, or one that was asked together with it, described the job."""
    said = {entry.run: entry.result.torch_version for entry in entries if isinstance(entry.result, JobDescription)}
    together = {head.together: said[head.run] for head in heads if head.together and head.run in said}
    found = {head.run: said.get(head.run) or together.get(head.together) for head in heads}
    return {run: version for run, version in found.items() if version}


def own_runs(entries: Sequence[Entry], description: JobDescription, device: str, target: Target | None) -> list[OwnRun]:
    """The longest run of each seed by the job's own settings."""
    found: dict[int, OwnRun] = {}
    for entry in entries:
        request, result = entry.request, entry.result
        if not (isinstance(request, Train | RunTrial) and isinstance(result, Trained | Trial)):
            continue
        if is_own(request, description, device):
            seed, run = int(request.settings["seed"]), read_own_run(request, result, description, target)
            if run is not None and (seed not in found or run.num_steps >= found[seed].num_steps):
                found[seed] = run
    return list(found.values())


def is_own(request: Train | RunTrial, description: JobDescription, device: str) -> bool:
    """Whether that is a whole run by the job's own settings."""
    # Through Settings, since records of before do not name all that there is now.
    asked, own = (replace(Settings(**words), seed=0) for words in (request.settings, description.baseline))
    is_whole = request.num_steps is None if isinstance(request, Train) else request.fraction == 1
    return asked == own and request.device == device and is_whole


def read_own_run(
    request: Train | RunTrial, result: Trained | Trial, description: JobDescription, target: Target | None
) -> OwnRun | None:
    """What such a run showed; None where it made no update that could be timed."""
    seconds = step_seconds(result)
    if seconds is None:
        return None
    goal = description.goal if target and target[0] == "score" else "min"
    there = [found.step for found in result.evaluations if target and _is_there(found, target, goal)]
    values = [value for found in result.evaluations if target and (value := _value(found, target[0])) is not None]
    return OwnRun(
        batch_size=int(request.settings["batch_size"]),
        num_passes=int(request.settings["accumulation_steps"]),
        num_workers=int(request.settings["num_workers"]),
        num_steps=result.num_steps,
        step_seconds=seconds,
        wait_seconds=None if result.data_wait_share is None else result.data_wait_share * seconds,
        evaluation_seconds=evaluation_seconds(result, seconds),
        steps_to_target=there[0] if there else None,
        value=(min if goal == "min" else max)(values, default=None),
        ended=result.stopped_because != "budget",
    )


def step_seconds(result: Trained | Trial) -> float | None:
    """Of an update with its batch, evaluations left out; None where none could be timed."""
    if not result.num_steps or not result.samples_per_second:
        return None
    return result.num_samples / result.samples_per_second / result.num_steps


def evaluation_seconds(result: Trained | Trial, step_seconds: float) -> float:
    """Of one evaluation: what the updates leave of the run."""
    rest = max(0.0, result.seconds - result.num_steps * step_seconds)
    return rest / len(result.evaluations) if result.evaluations else 0.0


def _is_there(found: Evaluated, target: Target, goal: str) -> bool:
    value, wanted = _value(found, target[0]), target[1]
    return value is not None and (value <= wanted if goal == "min" else value >= wanted)


def _value(found: Evaluated, name: str) -> float | None:
    value = found.loss if name == "loss" else found.score
    return value if value is not None and math.isfinite(value) else None


def paces(entries: Sequence[Entry], device: str, precision: str, num_workers: int) -> Mapping[int, float]:
    """Seconds of an update while trunks of one pass grew beside so many loader processes, by batch size: building,
    evaluation and branches are off."""
    grown: dict[int, list[Grown]] = {}
    for entry in entries:
        request, result = entry.request, entry.result
        if isinstance(request, GrowTrunk) and isinstance(result, Grown) and result.grown_steps:
            names = ("precision", "num_workers", "accumulation_steps")
            words = (request.device, *(request.settings[name] for name in names))
            if words == (device, precision, num_workers, 1):
                grown.setdefault(int(request.settings["batch_size"]), []).append(result)
    found = {size: _middle_pace(each) for size, each in grown.items()}
    return {size: seconds for size, seconds in found.items() if seconds > 0}


def _middle_pace(grown: Sequence[Grown]) -> float:
    """That of the update in the middle, so that what disturbed one trunk is none of it; 0 where all made too few."""
    by_pace = sorted((each.grown_seconds / each.grown_steps, each.grown_steps) for each in grown)
    until = list(itertools.accumulate(num for _, num in by_pace))
    if until[-1] < FEWEST_PACED:
        return 0.0
    return next(pace for (pace, _), num in zip(by_pace, until, strict=True) if 2 * num >= until[-1])


def middle_run(runs: Sequence[OwnRun]) -> OwnRun | None:
    """One run that stands for all of them: each number is the middle one; those not at the target count as late.

    One that was cut short before says nothing of the target, where others do.
    """
    if not runs:
        return None
    told = [run for run in runs if run.ended or run.steps_to_target is not None] or runs
    there = sorted(math.inf if run.steps_to_target is None else run.steps_to_target for run in told)
    steps = there[len(there) // 2]
    middle: dict[str, Any] = {
        name: statistics.median(getattr(run, name) for run in runs) for name in ("step_seconds", "evaluation_seconds")
    }
    return replace(runs[0], steps_to_target=int(steps) if math.isfinite(steps) else None, **middle)
