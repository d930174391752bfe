"""A machine that obeys planted laws: what legroom finds on it can be compared with the truth."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from legroom.engines.base import Child, Listen, ignore
from legroom.environments import Environment
from legroom.job_address import JobAddress
from legroom.questions import QUESTIONS, part_of
from legroom.questions.loading.fake import FakeLoaders
from legroom.questions.memory.fake import FakeMemory
from legroom.questions.speed.fake import FakeSteps
from legroom.questions.train.fake import FakeRuns
from legroom.requests import Request
from legroom.testing.clock import FakeClock

START_SECONDS = 2.0


class Fake(Protocol):
    """Answers requests of some kinds by a planted law; made without arguments, it plants a usual one."""

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]]

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        ...


@functools.cache
def kinds_of_fakes() -> Sequence[type[Fake]]:
    """Every class with ANSWERS in a question's `fake.py`."""
    parts = [vars(part) for question in QUESTIONS if (part := part_of(question, "fake"))]
    return [thing for part in parts for thing in part.values() if hasattr(thing, "ANSWERS")]


class FakeMachine:
    """An engine whose children answer from planted laws instead of running anything.

    `others` are fakes of further questions; each question without one has the fake that its class makes without
    arguments. Further arguments by name plant the memory: FakeMachine(bytes_per_sample=3e6) is short for
    FakeMachine(memory=FakeMemory(bytes_per_sample=3e6)).

    >>> from legroom.requests import Describe
    >>> machine = FakeMachine(bytes_per_sample=3e6, num_samples=500)
    >>> machine.start(JobAddress(text="digits"), {}).ask(Describe()).num_samples
    500
    """

    def __init__(
        self,
        *others: Fake,
        memory: FakeMemory | None = None,
        steps: FakeSteps | None = None,
        loaders: FakeLoaders | None = None,
        runs: FakeRuns | None = None,
        clock: FakeClock | None = None,
        **planted: Any,
    ) -> None:
        self.memory = memory or FakeMemory(**planted)
        self.steps, self.loaders, self.runs = steps or FakeSteps(), loaders or FakeLoaders(), runs or FakeRuns()
        self.others: Sequence[Fake] = (*others, *(kind() for kind in kinds_of_fakes()))
        """Those given go first."""
        self.clock = clock or FakeClock()
        self.asked: list[Request[Any]] = []
        """Every request that reached a child, in order."""
        self.num_started = self.num_closed = 0

    def start(self, address: JobAddress, environment: Environment, *, alone: bool = False) -> Child:
        """A child; it takes two seconds to start."""
        self.clock.advance(START_SECONDS)
        self.num_started += 1
        self.steps.start()
        return _FakeChild(self)

    def answer(self, request: Request[Any]) -> Any:
        """What a child says."""
        self.asked.append(request)
        fakes: tuple[Fake, ...] = (self.memory, self.steps, self.loaders, self.runs, *self.others)
        found = next((fake for fake in fakes if type(request) in fake.ANSWERS), None)
        if found is None:
            raise AssertionError(f"No fake answers {type(request).__name__}. Pass one: FakeMachine(YourFake())")
        result, seconds = found.answer(request)
        self.clock.advance(seconds)
        return result


class _FakeChild:
    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine

    def ask(self, request: Request[Any], listen: Listen = ignore) -> Any:
        return self.machine.answer(request)

    def close(self) -> None:
        self.machine.num_closed += 1
