"""The seam between asking and running: an engine starts children, a child answers requests."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from legroom.environments import Environment
from legroom.job_address import JobAddress
from legroom.requests import Request

Result = TypeVar("Result")

Listen = Callable[[str, float], None]
"""Called with what a child is at and the share of the request that is done, 0 to 1."""


def ignore(message: str, share: float) -> None:
    """Listen to nothing."""


class Child(Protocol):
    """Something that has, or will have, built the job and answers one request after the other."""

    def ask(self, request: Request[Result], listen: Listen = ignore) -> Result:
        """The answer; raises an error of the JobError family if the job failed, and the child is then spent.

        Ctrl-C during a request that is `interruptible` lets the child save and answer; a second one ends it.
        """
        ...

    def close(self) -> None:
        """End the child and all it started."""
        ...


class Engine(Protocol):
    """A place where children run."""

    def start(self, address: JobAddress, environment: Environment, *, alone: bool = False) -> Child:
        """A new child for that job, whose environment differs from this one in those variables.

        `alone`: it shares no memory with a process it was forked from, nor the way it lies there.
        """
        ...
