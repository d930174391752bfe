"""The runs that a proof compares: as a plan has them, as the job itself does, or the best point of a sweep."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from legroom.errors import UsageError
from legroom.host import Host
from legroom.job import Settings
from legroom.logbook import Logbook, read_lines
from legroom.plan_file import Plan
from legroom.plan_use import blaming, check_batch, settings_of, variables_of
from legroom.questions.prove.records import Goal, Metric
from legroom.requests import JobDescription
from legroom.setting_rules import check_workers
from legroom.training.records import Evaluated, Train, Trained
from legroom.training.several import fits_here, several_devices
from legroom.training.stopping import reaches
from legroom.units import format_seconds

Point = tuple[Train, Trained]


class Arms:
    """Makes runs for one machine, each in a process of its own, or in as many as it has devices."""

    def __init__(self, host: Host, device: str, description: JobDescription, timeout: float) -> None:
        self.host, self.device, self.description, self.timeout = host, device, description, timeout
        self.notes: list[str] = []
        """What a reader has to know of them."""

    def of_plan(self, plan: Plan, path: Path) -> Train:
        """A run as the plan in that file has it; what cannot be run here is refused with its line."""
        given = {"num_devices": 1, **settings_of(plan)}
        self._check_plan(path, {**self.description.baseline, **given})
        words = {"num_steps": plan.value("num_steps"), "allocator": plan.value("allocator")}
        with blaming(path, "num_devices"):
            return replace(self._arm(given), variables=variables_of(plan), **words)

    def of_job(self) -> Train:
        """A run as the job itself has it; on one device where this machine has fewer than it names."""
        num = int(self.description.baseline["num_devices"])
        if not fits_here(self.host, self.device, num):
            self.notes.append(f"The job's own settings name {num} devices, more than are here: they train on one")
            num = 1
        return self._arm({"num_devices": num})

    def of_sweep(self, point: Point) -> Train:
        """A point of a sweep; where early stopping ended it and its rate is constant, as long as it ran."""
        trial, trained = point
        arm = self._arm({**trial.settings, "num_devices": 1})
        ended = trained.stopped_because == "patience" and str(trial.settings["schedule"]) == "constant"
        return replace(arm, num_steps=trained.num_steps if ended else trial.num_steps)

    def _check_plan(self, path: Path, settings: dict[str, Any]) -> None:
        num_devices = int(settings["num_devices"])
        with blaming(path, "num_workers"):
            check_workers(settings["num_workers"], self.host.limits.num_cores)
        with blaming(path, "num_devices"):
            if not fits_here(self.host, self.device, num_devices):
                most = len(self.host.gpus) if self.device == "cuda" else self.host.limits.num_cores
                what = "GPUs" if self.device == "cuda" else "processes, a core each,"
                raise UsageError(f"{num_devices} {what} are more than there is room for here. Name at most {most}")
        check_batch(path, self.description, int(settings["batch_size"]), num_devices)

    def _arm(self, given: dict[str, Any]) -> Train:
        settings = asdict(Settings(**{**self.description.baseline, **given}))
        check_workers(settings["num_workers"], self.host.limits.num_cores)
        words = {"nodes": 1, "rendezvous": "", "restarts": 0, "sync_batch_norm": False, "shard": False}
        words["find_unused_parameters"] = False
        several = several_devices(self.host, self.device, settings, self.timeout, **words)
        if several and self.description.own_step:
            raise UsageError(
                "This job has its own step, so legroom cannot average its gradients over devices; set num_devices to 1"
            )
        return Train(device=self.device, anew=self.device == "cpu", settings=settings, several=several)


def best_of_sweep(logbook: Logbook, device: str, metric: Metric, target: float, goal: Goal) -> tuple[Point, str]:
    """The point of the sweeps in the folder that met the target soonest, else the best one; and a sentence on it."""
    points = list(_points(logbook, device))
    scored = [(point, found) for point in points if (found := _best(point[1], metric, goal)) is not None]
    if not scored:
        raise UsageError(
            f"There is no sweep to prove against in {logbook.path.parent}, of this job as its file is now, on this "
            "machine and device. Run legroom sweep with the same --out, or prove against default"
        )
    hits = [
        (met.seconds, place) for place, (trial, _) in enumerate(scored) if (met := _met(trial, metric, target, goal))
    ]
    if hits:
        seconds, place = min(hits)
        return scored[place][0], f"{_words(scored[place][0])} met the target first, in {format_seconds(seconds)}"
    pick = max if goal == "max" else min
    point, best = pick(scored, key=lambda one: getattr(one[1], metric))
    return point, f"none met the target; {_words(point)} came nearest, with a {metric} of {getattr(best, metric):.4g}"


def _points(logbook: Logbook, device: str) -> Iterable[Point]:
    """Runs that sweeps in the logbook made, of the same file of the job on the same machine."""
    heads, entries, _ = read_lines(logbook.path)
    now = (logbook.records.head.digest, logbook.records.head.machine)
    runs = {head.run for head in heads if head.command == "sweep" and (head.digest, head.machine) == now}
    for entry in entries:
        request, result = entry.request, entry.result
        if entry.run not in runs or not isinstance(request, Train) or not isinstance(result, Trained):
            continue
        if request.device == device:
            yield request, result


def _met(point: Point, metric: Metric, target: float, goal: Goal) -> Evaluated | None:
    found = point[1].evaluations
    return next((each for each in found if reaches(getattr(each, metric), target, goal=goal)), None)


def _best(trained: Trained, metric: Metric, goal: Goal) -> Evaluated | None:
    known = [found for found in trained.evaluations if getattr(found, metric) is not None]
    pick = max if goal == "max" else min
    return pick(known, key=lambda found: getattr(found, metric), default=None)


def _words(point: Point) -> str:
    settings = point[0].settings
    return f"batch {settings['batch_size']:,} at a rate of {settings['learning_rate']:.3g}"
