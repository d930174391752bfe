"""What a proof compares: a plan's run and its rival's, over seeds. It asks for runs, as `legroom train` does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from legroom.requests import RecordKind
from legroom.training.records import Train, Trained

Metric = Literal["loss", "score"]
Goal = Literal["max", "min"]
ArmName = Literal["plan", "rival", "plan_long"]
"""plan_long: the plan's run stretched to the seconds of its rival's own run."""
FIRST_SEED = 1000
"""Far from those that a search used: a plan must hold for seeds it has not seen."""
DISTURBED = 1.5
"""Factor between the paces of equal updates from which on something else must have used the machine."""
EQUAL_TIME = 1.1
"""Factor within which the longer run of a plan took the seconds of its rival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveQuestion:
    """Does the plan reach the target sooner than its rival?"""

    plan_path: str
    against: str
    """default, sweep, or the path of the rival's plan."""
    metric: Metric
    target: float
    goal: Goal
    """Whether more or less of the metric is better."""
    plan: Train
    """Its run, with any seed."""
    rival: Train
    seeds: tuple[int, ...]
    evaluate_samples: int | None = None
    """Samples between two evaluations, in both arms; None: after every epoch."""
    equal_time: bool = True
    """Whether the plan also trains for as long as its rival's whole run."""
    predicted_seconds: float | None = None
    predicted_range: tuple[float, float] | None = None
    plan_cost_seconds: float | None = None
    price_per_hour: float | None = None
    """Of a device; None where nobody named one."""
    notes: tuple[str, ...] = ()
    """What a reader has to know of the runs."""

    def run(self, arm: ArmName, seed: int) -> Train:
        """The request for one run; of the rival its whole run, where its last score is asked for."""
        mine = self.rival if arm == "rival" else self.plan
        target = None if arm == "plan_long" or (arm == "rival" and self.equal_time) else (self.metric, self.target)
        return replace(mine, settings={**mine.settings, "seed": seed}, target=target)

    def again(self, arm: ArmName, seed: int) -> Train:
        """The request for that run once more."""
        return replace(self.run(arm, seed), again=True)

    def long_run(self, seed: int, plan: Trained, rival: Trained) -> Train | None:
        """The plan's run stretched to its rival's seconds, by the pace of its first; None where it is no longer."""
        num_steps = round(plan.num_steps * rival.seconds / plan.seconds) if plan.seconds else 0
        if not self.equal_time or num_steps <= plan.num_steps or "diverged" in _ends(plan, rival):
            return None
        return replace(self.run("plan_long", seed), num_steps=num_steps)

    def long_again(self, longer: Train, long: Trained, rival: Trained) -> Train | None:
        """That run once more by the pace it had, where its seconds were not its rival's; None where they were."""
        if are_equal(long.seconds, rival.seconds) or not long.seconds or "diverged" in _ends(long):
            return None
        num_steps = max(1, round(long.num_steps * rival.seconds / long.seconds))
        return None if num_steps == longer.num_steps else replace(longer, num_steps=num_steps)

    def order(self) -> Iterator[tuple[int, tuple[Literal["plan", "rival"], ...]]]:
        """Seeds, and who runs first: in turn, so that a machine that slows down slows both.

        The plan begins: where it cannot be run, nobody waits for its rival to hear so.
        """
        for place, seed in enumerate(self.seeds):
            yield seed, ("plan", "rival") if place % 2 == 0 else ("rival", "plan")


def are_equal(seconds: float, others: float) -> bool:
    """Whether two runs took as long as one another, as far as an equal time needs it.

    >>> are_equal(14.0, 13.0), are_equal(42.3, 14.1)
    (True, False)
    """
    return max(seconds, others) <= EQUAL_TIME * min(seconds, others)


def _ends(*runs: Trained) -> tuple[str, ...]:
    return tuple(run.stopped_because for run in runs)


RECORDS: tuple[RecordKind, ...] = ()
QUESTION = ProveQuestion
