"""Races of loader settings with the step: asked one after the other, kept together, and what they say so far."""

import statistics

from legroom.errors import JobError, OutOfMemory
from legroom.laws.loading import MOST_WORKERS
from legroom.laws.ranking import choose_loader, join_rounds
from legroom.questions.loading.records import Lane, LoaderRates, LoadingQuestion, RaceLoaders
from legroom.session import Session

INLINE = Lane(num_workers=0)
FEW_CORES = 8
"""On fewer, settings differ by noise of 5 % and more: they get longer turns and more of them. On more, starting workers
takes longer than running them, so that only those start whose rate can change the choice."""


class Races:
    """All races of one question."""

    def __init__(self, session: Session, question: LoadingQuestion) -> None:
        self.session, self.question = session, question
        self.is_few = question.num_cores < FEW_CORES
        self.window, self.num_rounds = (0.25, 4) if self.is_few else (0.2, 3)
        self.rounds: list[dict[Lane, float]] = []
        """Of all races with the step: samples per second of each lane."""
        self.doubt = 0.0
        """By how much turns of one setting differed in the last race, as a share."""
        self.repeats_samples = False
        self.most_workers = MOST_WORKERS
        """So far none that failed had as few."""

    def race(self, lanes: tuple[Lane, ...], num_rounds: int | None = None) -> None:
        """Loader and step together, in turns; where no lane can run, without workers."""
        found = self.ask("together", lanes, num_rounds or self.num_rounds)
        if found.rounds:
            self.rounds += found.rounds
            self.doubt = statistics.median(rate.spread for rate in found.lanes if rate.outcome == "measured")
        elif not self.rounds:
            self.race((INLINE,))

    def ask(self, what: str, lanes: tuple[Lane, ...], num_rounds: int) -> LoaderRates:
        """What each lane did; one that failed is the end of all with as many workers."""
        request = self.question.race(what, lanes, num_rounds=num_rounds, window_seconds=self.window, keep=True)  # type: ignore[arg-type]
        found = ask_race(self.session, request)
        self.repeats_samples |= any(rate.repeats_samples for rate in found.lanes)
        failed = [rate.lane.num_workers for rate in found.lanes if rate.outcome != "measured"]
        self.most_workers = max(0, min([self.most_workers, *(num - 1 for num in failed)]))
        return found

    def rates(self) -> dict[Lane, float]:
        """Samples per second of all that were raced, on one scale."""
        return join_rounds(self.rounds)

    def chosen(self) -> Lane:
        """The lane to use, by what ran so far."""
        return choose_loader(self.rates(), repeats_samples=self.repeats_samples)


def ask_race(session: Session, request: RaceLoaders) -> LoaderRates:
    """The race's rates; errors say at which batch and with which workers."""
    counts = " and ".join(f"{lane.num_workers}" for lane in request.lanes)
    what = "The step on" if request.what == "step" else f"With {counts} workers and"
    try:
        result = session.ask(request)
    except OutOfMemory as error:
        message = f"A batch of {request.batch_size:,} does not fit: {error}. legroom memory finds the largest that does"
        raise OutOfMemory(message, details=error.details) from None
    except JobError as error:
        kept = " What was measured before is kept; --resume goes on from there." if session.records.entries else ""
        message = f"{what} batches of {request.batch_size:,}: {error}.{kept}"
        raise type(error)(message, details=error.details, facts=error.facts) from None
    assert isinstance(result, LoaderRates)
    return result
