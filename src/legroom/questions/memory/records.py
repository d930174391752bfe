"""How much memory a step takes: measured on this machine, or traced."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from legroom.environments import STEADY_MALLOC, Allocator, Environment, allocator_environment
from legroom.errors import UsageError
from legroom.laws.thesis import NUM_STEPS
from legroom.requests import RecordKind, Request

if TYPE_CHECKING:
    from legroom.logbook import Records

TRACE_RULES = 1
"""Number of the rules by which traces become estimates. Raise it where a change of them, or of what a record holds,
would answer otherwise: records made by other rules are then traced anew. The first records have no number."""
PROOF_STEPS = 5
"""Of a proof on a GPU: retries of its allocator may begin with the fourth. Between the evaluations of one on a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPeaks(Request["PhasePeaks"]):
    """Ask for the peak memory of each phase of a training step at one batch size."""

    kind: Literal["step_peaks"] = "step_peaks"
    device: str
    batch_size: int
    eval_batch_size: int | None = None
    """Size of one more evaluation pass after the steps; None runs it at batch_size alone."""
    samples: Literal["worst", "typical"] = "worst"
    """The largest samples the data holds, or an even spread of them."""
    num_steps: int = 3
    """Optimizer state appears at the first update, so fewer than two steps see too little."""
    precision: str = "fp32"
    accumulation_steps: int = 1
    """Passes for each update; from the second on, gradients are held while activations are made."""
    proof: bool = False
    """A proof runs in a fresh process with the allocator as training will have it."""
    num_workers: int | None = None
    """Loader processes of a proof on a host, which runs the training loop; None steps on a batch made beforehand."""
    cap_bytes: int | None = None
    """Bytes torch may reserve on a GPU; None leaves it all the card has."""
    allocator: Allocator = "expandable"
    anew: bool = False
    """Build model and optimizer anew first: the order in which a run fills the card decides where gaps are left."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the step in place of the job's own, of job.FASTER."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of a proof's environment, as a plan sets them: memory that a step keeps is a matter of some."""
    is_most: bool = False
    """Whether no larger batch was of any interest: memory may hold more."""
    seed: int = 0

    @property
    def fresh(self) -> bool:
        """Whether it needs a process that has run nothing before."""
        return self.proof

    @property
    def alone(self) -> bool:
        """On a host it counts the process's own pages."""
        return self.device == "cpu"

    def on_out_of_memory(self) -> "PhasePeaks":
        """Running out of memory is an answer."""
        return PhasePeaks(outcome="out_of_memory")

    @property
    def environment(self) -> Environment | None:
        """Variables of the process that answers; None where any process will do, as it changes its allocator itself."""
        if self.anew:
            return None
        if self.device == "cpu" and not self.proof:
            return STEADY_MALLOC
        return {**allocator_environment(self.device, self.allocator), **self.variables}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuestion:
    """How large a batch fits, of what and where."""

    device: str
    budget_bytes: int
    precision: str
    up_to_data: bool
    """Whether batches larger than the data set are of no interest."""
    most: int | None = None
    """The largest batch of any interest; None where the largest that fits is asked for."""
    num_workers: int = 0
    """Loader processes of the job's own settings: they share a host's budget."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the step in place of the job's own, of job.FASTER, as a plan has them."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment, as a plan sets them."""
    num_devices: int = 1
    """Data-parallel devices: each also holds buckets of gradients to send."""
    effective_batch: int | None = None
    """A batch to be made of several passes; None where nobody asks."""
    card: str | None = None
    """Name of the card in question, where one was named."""
    capability: int = 9
    """Major compute capability of the card that a trace is for."""
    allocator: Allocator = "expandable"
    is_here: bool = True
    """Whether steps can be run there; else they are traced."""
    budget_named: bool = True
    """Whether the memory or the card was named; else the budget is what was free then."""
    rule: str = "legroom"
    """legroom, or thesis: a line through two probes."""
    seed: int = 0

    def bucket_bytes(self, num_trainable: int) -> int:
        """Memory of data-parallel buckets: a second copy of every gradient, laid out for sending (torch's DDP)."""
        return 4 * num_trainable if self.num_devices > 1 else 0

    def request(self, batch_size: int, **more: Any) -> StepPeaks:
        """The request for that batch size."""
        cap = None if self.device == "cpu" else self.budget_bytes
        plain = StepPeaks(
            device=self.device,
            batch_size=batch_size,
            precision=self.precision,
            cap_bytes=cap,
            allocator=self.allocator,
            seed=self.seed,
        )
        return replace(plain, **more)

    def trace(self, **more: Any) -> "TraceMemory":
        """The request for an estimate."""
        plain = TraceMemory(precision=self.precision, capability=self.capability, seed=self.seed)
        return replace(plain, **more)

    def proof(self, batch_size: int, **more: Any) -> StepPeaks:
        """The request for a proof of that batch size; on a host the training loop runs, with its loader processes."""
        workers = self.num_workers if self.device == "cpu" else None
        about = {"num_workers": workers, "options": self.options, "variables": self.variables}
        is_most = self.most is not None and batch_size >= self.most
        return self.request(batch_size, num_steps=PROOF_STEPS, proof=True, is_most=is_most, **about, **more)


NO_PHASES = ("reserved", "large_evaluation")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePeaks:
    """Peak bytes of each phase of a step."""

    kind: Literal["phase_peaks"] = "phase_peaks"
    outcome: Literal["measured", "out_of_memory", "retried", "no_batch"] = "measured"
    """retried: it ran only because the allocator gave cached blocks back and asked again, step after step.
    no_batch: the job's own loader has no batch of that size."""
    phase_bytes: Mapping[str, int] = field(default_factory=dict)
    """Peak by phase: data, forward, backward, update, evaluation and, where asked, large_evaluation.

    On a CPU bytes of this process and its loader processes, on a GPU allocated bytes. There `reserved` joins them: what
    torch took from the card."""
    step_reserved_bytes: list[int] = field(default_factory=list)
    """What torch held of the card after each step."""
    outside_bytes: int = 0
    """What the job holds of the card that torch does not know of."""
    spread: float = 0.0
    """(largest - smallest) / largest of the steps' peaks, the first step left out."""
    num_repeats: int = 0
    step_seconds: float = 0.0
    """Median seconds of a step, probe overhead included."""
    spare_bytes: int = 0
    """What another run of the same batch may take beyond these peaks, on a host."""
    growth_bytes: int = 0
    """By how much the peak still grew from one step to the next when the steps ended; 0 where it had settled."""
    loader_bytes: int = 0
    """The most that loader processes took beside the training process; it is part of the peaks."""

    def fits(self, budget_bytes: int) -> bool:
        """Whether this ran, and another run of it will, within so many bytes."""
        return self.outcome == "measured" and self.training_bytes() + self.spare_bytes <= budget_bytes

    def spared_phases(self) -> dict[str, int]:
        """Peaks of the phases of training that another run may reach."""
        return {name: value + self.spare_bytes for name, value in self.training_phases().items()}

    def training_phases(self) -> dict[str, int]:
        """Peaks of a training step and of an evaluation pass at the same size, as what runs out: reserved bytes."""
        phases = {name: value for name, value in self.phase_bytes.items() if name not in NO_PHASES}
        return {name: value + self._overhead() for name, value in phases.items()}

    def evaluation_phases(self) -> dict[str, int]:
        """Peak of the larger evaluation pass, under the name of the plain one."""
        peak = self.phase_bytes.get("large_evaluation")
        return {} if peak is None else {"evaluation": peak + self._overhead()}

    def _overhead(self) -> int:
        """What torch's allocator held of the card beyond what it had handed out."""
        handed = max((value for name, value in self.phase_bytes.items() if name not in NO_PHASES), default=0)
        return max(0, self.phase_bytes.get("reserved", 0) - handed)

    def training_bytes(self) -> int:
        """Peak over all phases of training; 0 if it did not run through."""
        return max(self.training_phases().values(), default=0)

    def evaluation_bytes(self) -> int:
        """Peak of the larger evaluation pass; 0 if it did not run."""
        return max(self.evaluation_phases().values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMemory(Request["TracedMemory"]):
    """Ask for an estimate of the memory on a GPU, traced without one."""

    kind: Literal["trace_memory"] = "trace_memory"
    precision: str = "fp32"
    accumulation_steps: int = 1
    capability: int = 9
    samples: Literal["worst", "typical"] = "worst"
    seed: int = 0

    @property
    def fresh(self) -> bool:
        """Traces leave torch's dispatcher changed."""
        return True

    def is_current(self, result: "TracedMemory") -> bool:
        """Whether the estimate was made by the rules of this version."""
        return result.estimate.get("rules") == TRACE_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedMemory:
    """The estimate: lines in the batch size, as `MemoryEstimate` writes them."""

    kind: Literal["traced_memory"] = "traced_memory"
    estimate: Mapping[str, Any]


RECORDS = (
    RecordKind(StepPeaks, PhasePeaks, "legroom.questions.memory.child.peaks:measure_peaks"),
    RecordKind(TraceMemory, TracedMemory, "legroom.questions.memory.child.trace:estimate_memory"),
)
QUESTION = MemoryQuestion


def default_question(records: "Records") -> MemoryQuestion:
    """The question behind the entries of a logbook that does not name it.

    A host's budget stands in no entry: it is taken for what the last proof of one pass took and had to leave free.
    """
    proofs = [
        (entry.request, entry.result)
        for entry in records.entries
        if isinstance(entry.request, StepPeaks) and entry.request.proof and entry.request.accumulation_steps == 1
        if entry.result.outcome == "measured"
    ]
    if not proofs:
        raise UsageError("The logbook does not say how much memory was asked about. Ask the question again")
    request, peaks = proofs[-1]
    return MemoryQuestion(
        device=request.device,
        budget_bytes=request.cap_bytes or peaks.training_bytes() + peaks.spare_bytes,
        precision=request.precision,
        up_to_data=False,
        num_workers=request.num_workers or 0,
        options=request.options,
        variables=request.variables,
        rule="thesis" if request.num_steps == NUM_STEPS else "legroom",
        seed=request.seed,
    )
