"""Trains every point of the grid that no earlier run has trained, several at once where that is asked and fits."""

from collections.abc import Sequence
from typing import Any

from legroom.engines.queue import Limits, Outcome, ask_all
from legroom.environments import Environment
from legroom.errors import OutOfMemory
from legroom.questions.sweep.evidence import bytes_needed, read_cells
from legroom.questions.sweep.records import SweepQuestion
from legroom.requests import Request
from legroom.session import Session
from legroom.training.records import Train, failed_run

CONTEXT_BYTES = 600 * 2**20
"""Of a GPU, for each process: 527 MiB were seen on one H200."""
HOST_SHARE = 0.9
GRACE = 3.0
"""A trial that has not ended after so many times its seconds, and a minute, is ended."""
GRACE_SECONDS = 60.0


def run_trials(session: Session, question: SweepQuestion) -> None:
    """Each is on disk before the next is told of; one that fails is a marked point."""
    trials = question.trials()
    todo = [trial for trial in trials if session.logbook.recall(trial) is None]
    session.release()
    tally = Tally(session, trials, num_done=len(trials) - len(todo))
    for outcome in ask_all(
        session.engine,
        session.address,
        todo,
        limits=limits_of(session, question),
        tell=tally.tell,
        clock=session.clock,
    ):
        result = outcome.result if outcome.error is None else _failure(outcome)
        session.logbook.record(outcome.request, result, outcome.seconds)
        tally.count(outcome.request)


class Tally:
    """Tells how far the sweep is: by trials that have ended and shares of those that run."""

    def __init__(self, session: Session, trials: Sequence[Train], num_done: int) -> None:
        self.session, self.num_trials, self.num_done = session, len(trials), num_done
        self.shares: list[tuple[Request[Any], float]] = []

    def tell(self, request: Request[Any], message: str, share: float) -> None:
        """One of the trials is at that."""
        self.shares = [*(each for each in self.shares if each[0] != request), (request, share)]
        assert isinstance(request, Train)
        point = f"batch {request.settings['batch_size']:,}, rate {request.settings['learning_rate']:.3g}"
        done = self.num_done + 0.5 * sum(share for _, share in self.shares)  # early stopping may end it at any time
        words = f"trial {self.num_done + 1} of {self.num_trials} ({point}): {message}"
        self.session.progress(words, 0.02 + 0.97 * done / self.num_trials)

    def count(self, request: Request[Any]) -> None:
        """One has ended."""
        self.shares = [each for each in self.shares if each[0] != request]
        self.num_done += 1
        words = f"{self.num_done} of {self.num_trials} trials done"
        self.session.progress(words, 0.02 + 0.97 * self.num_done / self.num_trials)


def _failure(outcome: Outcome) -> Any:
    assert isinstance(outcome.request, Train)
    ran_out = isinstance(outcome.error, OutOfMemory)
    return failed_run(outcome.request, "out_of_memory" if ran_out else "failed", str(outcome.error))


def limits_of(session: Session, question: SweepQuestion) -> Limits:
    """How many trials at once, for how long, and which beside which: only what memory is known to hold together."""
    gpus, is_cpu = session.host.gpus, question.device == "cpu"
    held = 0 if is_cpu else CONTEXT_BYTES
    free = min((gpu.free_bytes for gpu in gpus), default=0)
    room = HOST_SHARE * session.host.limits.available_bytes if is_cpu else free
    cards: list[Environment] = [{"CUDA_VISIBLE_DEVICES": gpu.uuid} for gpu in gpus]
    places = cards if len(cards) > 1 and not is_cpu else [{}]

    def may_join(request: Request[Any], running: Sequence[Request[Any]]) -> bool:
        cells = read_cells(session.records.entries, question)
        sizes = [each.settings["batch_size"] for each in (request, *running) if isinstance(each, Train)]
        needed = [bytes_needed(cells, size) for size in sizes]
        return all(each is not None for each in needed) and sum(held + (each or 0) for each in needed) <= room

    seconds = None if question.max_seconds is None else GRACE * question.max_seconds + GRACE_SECONDS
    return Limits(together=question.together, seconds=seconds, may_join=may_join, places=places)
