"""What a check compares: a plan, what was known when it was made, and what is so now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from legroom.environments import PASSIVE_THREADS, REUSE_MALLOC
from legroom.errors import UsageError
from legroom.questions.memory.records import MemoryQuestion, StepPeaks
from legroom.questions.speed.records import TimeSteps
from legroom.requests import RecordKind

if TYPE_CHECKING:
    from legroom.logbook import Records

NUM_PROCESSES = 3
"""On a CPU, where processes differ by more than the steps of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion:
    """Does the plan still hold?"""

    plan_path: str
    memory: MemoryQuestion
    """The device and its budget, with the plan's precision, workers and allocator."""
    batch_size: int
    accumulation_steps: int = 1
    variables: Mapping[str, str]
    """Of the environment, as the plan sets them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the step, of job.FASTER, as the plan sets them and the job itself does not."""
    expected_seconds: float | None = None
    """Of a step at that batch, by what was timed for the plan; None where nothing was."""
    expected_range: tuple[float, float] | None = None
    differences: Sequence[str] = ()
    """What is not as it was when the plan was made."""
    busy: Sequence[str] = ()
    """That other programs use this machine, so that no slow step can be told from theirs; empty where none do."""
    unknown: Sequence[str] = ()
    """What nobody can compare, and why."""

    def proof(self) -> StepPeaks:
        """The request that proves its batch."""
        passes = min(2, self.accumulation_steps)  # gradients are held from the second pass on
        about = replace(self.memory, options=self.options)  # those of before have them here alone
        return about.proof(self.batch_size, accumulation_steps=passes)

    def timings(self) -> list[TimeSteps]:
        """The requests that time its steps: processes of their own on a CPU, rounds in one on a GPU."""
        device, threads = self.memory.device, self.variables.get("OMP_NUM_THREADS")
        plain = TimeSteps(
            device=device,
            batch_sizes=(self.batch_size,),
            precision=self.memory.precision,
            options=self.options,
            seconds=3.0,
            min_rounds=3,
        )
        if device != "cpu":
            return [plain]
        tuned = replace(
            plain,
            keeps_memory=set(REUSE_MALLOC) <= set(self.variables),
            passive_threads=set(PASSIVE_THREADS) <= set(self.variables),
            num_threads=None if threads is None else int(threads),
        )
        return [replace(tuned, run=number) for number in range(1, NUM_PROCESSES + 1)]


RECORDS: tuple[RecordKind, ...] = ()
QUESTION = CheckQuestion


def default_question(records: "Records") -> Any:
    """Checks have always been written down whole."""
    raise UsageError("The logbook does not say which plan was checked. Run legroom check again")
