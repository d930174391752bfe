"""The seam between asking and running: an engine starts workers, a worker answers requests."""

from collections.abc import Callable
from typing import Protocol

from legroom.job import JobAddress
from legroom.records import Environment, Request, Result

Listen = Callable[[str, float], None]
"""Called with what a worker is at and the share of the request that is done, 0 to 1."""


def ignore(message: str, share: float) -> None:
    """Listen to nothing."""


class Worker(Protocol):
    """Something that has, or will have, built the job and answers one request after the other."""

    def ask(self, request: Request, listen: Listen = ignore) -> Result:
        """The answer; raises an error of the JobError family if the job failed, and the worker is then spent.

        Ctrl-C during a request that is `interruptible` lets the worker save and answer; a second one ends it.
        """
        ...

    def close(self) -> None:
        """End the worker and all it started."""
        ...


class Engine(Protocol):
    """A place where workers run."""

    def start(self, address: JobAddress, environment: Environment) -> Worker:
        """A new worker for that job, whose environment differs from this one in those variables."""
        ...
