"""Trains plan and rival in turn, seed after seed; what has run before is not run again, but for what was disturbed."""

from legroom.errors import JobError
from legroom.questions.prove.evidence import Pair, disturbed, gather
from legroom.questions.prove.records import ArmName, ProveQuestion
from legroom.session import Session
from legroom.training.records import Train, Trained

TITLES = {"plan": "the plan", "rival": "its rival", "plan_long": "the plan for the rival's seconds"}


def run_all(session: Session, question: ProveQuestion) -> None:
    """Every run of the proof."""
    pace = Pace(session, question)
    for seed, order in question.order():
        for arm in order:
            pace.run(question.run(arm, seed), arm, seed)
    for run in disturbed(gather(session.records.entries, question)):
        pace.add(run.arm)
        pace.run(question.again(run.arm, run.seed), run.arm, run.seed)
    for pair in gather(session.records.entries, question):
        _run_long(pace, question, pair)


def _run_long(pace: "Pace", question: ProveQuestion, pair: Pair) -> None:
    """The plan's run for the seconds of its rival's, once more where it took others."""
    longer = question.long_run(pair.seed, pair.plan.trained, pair.rival.trained)
    if longer is None:
        if question.equal_time:
            pace.skip("plan_long")
        return
    long = pace.run(longer, "plan_long", pair.seed)
    again = question.long_again(longer, long, pair.rival.trained)
    if again is not None:
        pace.add("plan_long")
        pace.run(again, "plan_long", pair.seed)


class Pace:
    """How far the proof is: each run weighs what runs of its arm took."""

    def __init__(self, session: Session, question: ProveQuestion) -> None:
        self.session, self.tell = session, session.progress
        known = question.predicted_seconds or 1.0
        self.weights: dict[ArmName, float] = {"plan": known, "rival": 3 * known}
        if question.equal_time:
            self.weights["plan_long"] = 3 * known
        self.num_left: dict[ArmName, int] = dict.fromkeys(self.weights, len(question.seeds))
        self.done = 0.0

    def run(self, request: Train, arm: ArmName, seed: int) -> Trained:
        """What came of the run; an error is told with whose it was."""
        session, title = self.session, f"{TITLES[arm]}, seed {seed}"
        session.progress = lambda message, share: self.tell(f"{title}: {message}", self._share(arm, share))
        session.progress("starting", 0.0)
        try:
            trained = session.ask(request)
        except JobError as error:
            raise type(error)(f"In the run of {title}: {error}", details=error.details, facts=error.facts) from None
        finally:
            session.progress = self.tell
        self.weights[arm] = max(trained.seconds, 1e-3)
        if arm == "rival" and "plan_long" in self.weights:
            self.weights["plan_long"] = self.weights[arm]
        self.done += self.weights[arm]
        self.num_left[arm] -= 1
        return trained

    def add(self, arm: ArmName) -> None:
        """One more run of that arm is needed."""
        self.num_left[arm] += 1

    def skip(self, arm: ArmName) -> None:
        """One run of that arm is not needed."""
        self.num_left[arm] -= 1

    def _share(self, arm: ArmName, share: float) -> float:
        left = sum(self.weights[name] * num for name, num in self.num_left.items())
        return (self.done + share * self.weights[arm]) / (self.done + left)
