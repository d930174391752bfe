"""The runs of a proof, read from the logbook's entries once: when each met the target, and with what it ended."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from legroom.logbook import Entry
from legroom.questions.prove.records import DISTURBED, ArmName, ProveQuestion, are_equal
from legroom.training.records import Evaluated, Train, Trained
from legroom.training.stopping import reaches


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run."""

    arm: ArmName
    seed: int
    trained: Trained
    met: Evaluated | None
    """The first evaluation that met the target; None where none did."""
    before: Evaluated | None
    """The evaluation before that one; None where it was the first."""
    last_value: float | None
    """What the metric was at the last evaluation."""

    @property
    def seconds(self) -> float:
        """Of training and evaluating until the target was met, or all, where it was not."""
        return self.met.seconds if self.met else self.trained.seconds

    @property
    def num_steps(self) -> int:
        """Updates until then."""
        return self.met.step if self.met else self.trained.num_steps

    @property
    def doubt_seconds(self) -> float:
        """By how much sooner the target may have been met, between two evaluations."""
        return 0.0 if self.met is None else self.met.seconds - (self.before.seconds if self.before else 0.0)

    def value(self, metric: str) -> float | None:
        """The metric when the target was met, or at the end."""
        return getattr(self.met, metric) if self.met else self.last_value

    def point(self, metric: str) -> dict[str, Any]:
        """The run as the answer tells it."""
        return {
            "arm": self.arm,
            "seed": self.seed,
            "reached": self.met is not None,
            "seconds": self.seconds,
            "num_steps": self.num_steps,
            "value": self.value(metric),
            "run_seconds": self.trained.seconds,
            "run_steps": self.trained.num_steps,
            "last_value": self.last_value,
            "stopped_because": self.trained.stopped_because,
            "samples_per_second": self.trained.samples_per_second,
            "curve": {
                "seconds": [found.seconds for found in self.trained.evaluations],
                "value": [getattr(found, metric) for found in self.trained.evaluations],
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The runs of one seed."""

    seed: int
    plan: Outcome
    rival: Outcome
    plan_long: Outcome | None = None

    @property
    def is_equal_time(self) -> bool:
        """Whether the longer run of the plan took the seconds of its rival."""
        return self.plan_long is not None and are_equal(self.plan_long.trained.seconds, self.rival.trained.seconds)


def gather(entries: Iterable[Entry], question: ProveQuestion) -> list[Pair]:
    """The seeds of which both arms have run, in order."""
    runs = [(entry.request, entry.result) for entry in entries if isinstance(entry.request, Train)]
    pairs = []
    for seed in question.seeds:
        plan, rival = (_outcome(runs, arm, seed, question) for arm in ("plan", "rival"))
        if plan is None or rival is None:
            continue
        long = _long(runs, plan.trained, rival.trained, seed, question)
        pairs.append(Pair(seed=seed, plan=plan, rival=rival, plan_long=long))
    return pairs


def disturbed(pairs: Sequence[Pair]) -> list[Outcome]:
    """Runs whose updates took much longer than those of another run of the same arm."""
    found: list[Outcome] = []
    for runs in ([pair.rival for pair in pairs], [pair.plan for pair in pairs]):
        most = max((run.trained.samples_per_second for run in runs), default=0.0)
        found += [run for run in runs if DISTURBED * run.trained.samples_per_second < most]
    return found


def _outcome(runs: Sequence[tuple[Train, Any]], arm: ArmName, seed: int, question: ProveQuestion) -> Outcome | None:
    """The run; of two, since one was disturbed, the one with the faster updates."""
    asked = (question.run(arm, seed), question.again(arm, seed))
    found = [run for request in asked if (run := _found(runs, request, arm, seed, question))]
    return max(found, key=lambda run: run.trained.samples_per_second, default=None)


def _found(
    runs: Sequence[tuple[Train, Any]], request: Train, arm: ArmName, seed: int, question: ProveQuestion
) -> Outcome | None:
    found = [result for asked, result in runs if asked == request]
    return outcome_of(found[-1], arm, seed, question) if found else None


def _long(
    runs: Sequence[tuple[Train, Any]], plan: Trained, rival: Trained, seed: int, question: ProveQuestion
) -> Outcome | None:
    """The plan's run for the seconds of its rival: of two, the one that came nearer to them."""
    request = question.long_run(seed, plan, rival)
    first = None if request is None else _found(runs, request, "plan_long", seed, question)
    if request is None or first is None:
        return None
    again = question.long_again(request, first.trained, rival)
    second = None if again is None else _found(runs, again, "plan_long", seed, question)
    return min(filter(None, (first, second)), key=lambda run: abs(math.log(run.trained.seconds / rival.seconds)))


def outcome_of(trained: Trained, arm: ArmName, seed: int, question: ProveQuestion) -> Outcome:
    """When that run met the target, if it did."""
    values = [getattr(found, question.metric) for found in trained.evaluations]
    hits = [place for place, value in enumerate(values) if reaches(value, question.target, goal=question.goal)]
    first = hits[0] if hits else None
    return Outcome(
        arm=arm,
        seed=seed,
        trained=trained,
        met=None if first is None else trained.evaluations[first],
        before=trained.evaluations[first - 1] if first else None,
        last_value=values[-1] if values else None,
    )
