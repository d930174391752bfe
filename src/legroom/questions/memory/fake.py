"""A planted job, and the memory it takes by a planted law: on a host, on a card, and as a trace would estimate it."""

import math
import random
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from legroom.errors import OutOfMemory
from legroom.job import Settings
from legroom.questions.memory.records import TRACE_RULES, PhasePeaks, StepPeaks, TracedMemory, TraceMemory
from legroom.requests import CardMemory, Describe, JobDescription, ReadCard, Request


@dataclass(kw_only=True)
class FakeMemory:
    """Answers what the job is and how much memory its steps take.

    >>> FakeMemory(bytes_per_sample=3e6, fixed_bytes=200e6).peak_bytes(100)
    500000000.0
    >>> FakeMemory(bytes_per_sample=3e6, fixed_bytes=200e6, block_bytes=64e6, workspace=(64, 1e9)).peak_bytes(100)
    1520000000.0
    """

    ANSWERS: ClassVar[tuple[type[Request[Any]], ...]] = (Describe, ReadCard, StepPeaks, TraceMemory)

    bytes_per_sample: float = 1e6
    fixed_bytes: float = 300e6
    update_bytes: float = 0.0
    """Peak of the update, whatever the batch: temporaries as large as the parameters."""
    evaluation_share: float = 0.3
    """Bytes of a sample in evaluation, as a share of those in training."""
    proof_factor: float = 1.0
    """How much more a sample takes with the plain allocator."""
    typical_share: float = 1.0
    """Bytes of a typical sample, as a share of the largest's; below 1 the job is uneven."""
    block_bytes: float = 0.0
    """Samples take memory in whole blocks of this size, so that it grows in steps; 0 gives a straight line."""
    workspace: tuple[int, float] | None = None
    """Batches from that size on take so many bytes more, all at once."""
    noise_bytes: float = 0.0
    """The most that chance adds to a peak."""
    limit_bytes: float | None = None
    """What the machine has; a step that takes more runs out of memory."""
    reserve_bytes: float = 0.0
    """What a GPU's allocator holds above what it hands out."""
    retries_from: int | None = None
    """The smallest batch that runs only because the allocator asks again."""
    fixed_most: int | None = None
    """The largest batch with torch's default allocator, which takes memory in proportion; None: no difference."""
    gradient_bytes: float = 0.0
    """What is held between the passes of one update."""
    num_samples: int | None = 10_000
    largest_loader_batch: int | None = None
    """The most samples that the job's own loader gives; None: it has no loader of its own."""
    own_step: bool = False
    has_score: bool = False
    goal: Literal["max", "min"] = "max"
    chance: float | None = None
    """The score of a model that learned nothing."""
    num_valid_samples: int | None = None
    has_valid: bool = True
    normalises_by_batch: bool = False
    sample_seconds: float | None = None
    """To read a sample, as the first look at the data has it."""
    baseline: Settings = field(default_factory=Settings)
    """The job's own settings."""
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def peak_bytes(self, batch_size: int, *, proof: bool = False) -> float:
        """The planted truth without noise."""
        return max(self.fixed_bytes + self._taken(self._slope(proof), batch_size), self.update_bytes)

    def largest_batch(self, budget_bytes: float) -> int:
        """The planted truth: the largest batch that a proof finds within the budget; 0 if none."""
        size, step = 0, 2**40
        while step:
            if self.peak_bytes(size + step, proof=True) <= budget_bytes:
                size += step
            step //= 2
        return size

    def answer(self, request: Any) -> tuple[Any, float]:
        """What a child would report, and the seconds that would take."""
        match request:
            case StepPeaks():
                return self._peaks(request), 0.01 * request.num_steps
            case TraceMemory():
                return TracedMemory(estimate=self._estimate(request)), 0.0
            case ReadCard():
                total = int(self.limit_bytes or 80 * 2**30)
                return CardMemory(name="Planted", total_bytes=total, free_bytes=total, capability=9), 0.0
        return self._description(), 0.0

    def _slope(self, proof: bool) -> float:
        return self.bytes_per_sample * (self.proof_factor if proof else 1.0)

    def _taken(self, slope: float, batch_size: int) -> float:
        """What the samples take, above the fixed bytes."""
        grown = slope * batch_size
        if self.block_bytes:
            grown = math.ceil(grown / self.block_bytes) * self.block_bytes
        return grown + (self.workspace[1] if self.workspace and batch_size >= self.workspace[0] else 0.0)

    def _peaks(self, request: StepPeaks) -> PhasePeaks:
        if self.largest_loader_batch is not None and request.batch_size > self.largest_loader_batch:
            return PhasePeaks(outcome="no_batch")
        phases = self._phases(request)
        in_proportion = self._in_proportion(request)
        asks_again = self.retries_from is not None and request.batch_size >= self.retries_from and not in_proportion
        if request.device != "cpu":
            # Asked again, it has given back what it held beyond the storages themselves.
            more = 0.0 if asks_again else self.reserve_bytes
            phases["reserved"] = in_proportion or max(phases.values()) + more
            _refuse(phases["reserved"], request.cap_bytes)
        if request.eval_batch_size is not None:
            phases["large_evaluation"] = self._evaluation(request, request.eval_batch_size)
        _refuse(max(phases.values()), self.limit_bytes)
        noisy = {name: int(value + self._random.uniform(0, self.noise_bytes)) for name, value in phases.items()}
        return PhasePeaks(
            outcome="retried" if asks_again else "measured",
            phase_bytes=noisy,
            step_reserved_bytes=[noisy["reserved"]] * request.num_steps if "reserved" in noisy else [],
            num_repeats=request.num_steps,
            step_seconds=0.01,
        )

    def _phases(self, request: StepPeaks) -> dict[str, float]:
        slope, size = self._slope_of(request), request.batch_size
        held = self.gradient_bytes if request.accumulation_steps > 1 else 0.0
        return {
            "forward": self.fixed_bytes + self._taken(0.8 * slope, size),
            "backward": self.fixed_bytes + self._taken(slope, size) + held,
            "update": max(self.update_bytes, self.fixed_bytes),
            "evaluation": self._evaluation(request, size),
        }

    def _slope_of(self, request: StepPeaks) -> float:
        return self._slope(request.proof) * (self.typical_share if request.samples == "typical" else 1.0)

    def _evaluation(self, request: StepPeaks, batch_size: int) -> float:
        return self.fixed_bytes + self._taken(self.evaluation_share * self._slope_of(request), batch_size)

    def _in_proportion(self, request: StepPeaks) -> float | None:
        """What the default allocator takes, where it differs."""
        if self.fixed_most is None or request.allocator != "default" or request.cap_bytes is None:
            return None
        return request.cap_bytes * request.batch_size / (self.fixed_most + 0.5)

    def _estimate(self, request: TraceMemory) -> dict[str, Any]:
        held = self.gradient_bytes if request.accumulation_steps > 1 else 0.0
        slope = self.bytes_per_sample * (self.typical_share if request.samples == "typical" else 1.0)
        backward = {
            "fixed_bytes": self.fixed_bytes + held,
            "bytes_per_sample": slope,
            "phase": "backward",
            "parts": {"weights": [self.fixed_bytes, 0.0], "activations": [0.0, slope]},
        }
        evaluation = {**backward, "bytes_per_sample": self.evaluation_share * slope}
        laws = {"rules": TRACE_RULES, "train": [backward], "evaluation": [evaluation], "reserves": {}}
        return laws | {"method": "fake", "reason": "", "batch_sizes": [8, 16], "notes": [], "seconds": 0.1}

    def _description(self) -> JobDescription:
        largest = int(self.bytes_per_sample / 10)
        smallest = int(largest * self.typical_share)
        return JobDescription(
            model_name="Planted",
            num_parameters=1000,
            num_trainable=1000,
            parameter_bytes=4000,
            num_samples=self.num_samples,
            num_valid_samples=self.num_valid_samples,
            sample_bytes=(smallest, smallest, largest),
            num_scanned=64,
            uneven=self.typical_share < 1.0,
            own_step=self.own_step,
            own_loader=self.largest_loader_batch is not None,
            widest_batch=self.largest_loader_batch,
            has_score=self.has_score,
            goal=self.goal,
            chance=self.chance,
            has_valid=self.has_valid,
            normalises_by_batch=self.normalises_by_batch,
            sample_seconds=self.sample_seconds,
            baseline=asdict(self.baseline),
            torch_version="planted",
        )


def _refuse(needed_bytes: float, limit_bytes: float | None) -> None:
    if limit_bytes is not None and needed_bytes > limit_bytes:
        raise OutOfMemory("planted: more than there is")
