"""What is asked of a child and what it reports: frozen records in bytes and seconds, known by their kind."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from legroom.environments import EXPANDABLE, Environment
from legroom.questions import QUESTIONS, part_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Result = TypeVar("Result")
NURSERY = "nursery"
"""The word that starts a process which forks children, instead of one of these."""
SAVING, SAVED = "saving", "saved"
"""What a run says, without fail, before and after it writes weights: that may take long, and hears no signals."""


class Request(Generic[Result]):
    """Base of all that can be asked of a child, named after what it reports."""

    __slots__ = ()
    kind: str

    @property
    def fresh(self) -> bool:
        """Whether it needs a process that has run nothing before."""
        return False

    @property
    def environment(self) -> Environment | None:
        """What differs in the environment of the process that answers; None where any process will do."""
        return None

    @property
    def alone(self) -> bool:
        """Whether it measures what a fork shares with its siblings: memory of the host, and how it lies.

        The process is then started anew, not forked.
        """
        return False

    @property
    def interruptible(self) -> bool:
        """Whether Ctrl-C lets the child save and answer instead of ending it."""
        return False

    def on_out_of_memory(self) -> Result | None:
        """What it means that memory ran out; None where that is an error."""
        return None

    def is_current(self, result: Result) -> bool:
        """Whether a result from a logbook was made by today's rules."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """What a child saw of a job."""

    kind: Literal["job_description"] = "job_description"
    model_name: str
    num_parameters: int
    num_trainable: int
    parameter_bytes: int
    num_samples: int | None
    """None for iterable data of unsaid length."""
    num_valid_samples: int | None
    sample_bytes: tuple[int, int, int]
    """Smallest, median and largest of the samples looked at."""
    num_scanned: int
    """How many samples that was."""
    sample_seconds: float | None = None
    """What reading one of them took, in the middle; None where none was read by itself."""
    uneven: bool
    """Whether samples differ in size, so that the worst batch is larger than the typical one."""
    own_step: bool
    own_loader: bool
    carries_state: bool = False
    """Whether batches of the job's own loader say which is the first: each goes on where the one before ended."""
    normalises_by_batch: bool = False
    """Whether layers of the model do (BatchNorm): another batch is then another loss. Descriptions of before did not
    say."""
    epoch_batches: int | None = None
    """Batches of an epoch at the job's own batch size, as its own loader counts them; None where it has none, or does
    not say."""
    widest_batch: int | None = None
    """The largest batch the job's own loader gives; None where it has none, or no limit was met."""
    widest_valid_batch: int | None = None
    has_score: bool
    goal: Literal["max", "min"] = "max"
    """Whether a higher or a lower score is better."""
    chance: float | None = None
    """The score of a model that learned nothing, where the job says so."""
    has_valid: bool = True
    """Whether there is validation data. Descriptions of before did not say."""
    optimizer_name: str = ""
    """The class of the job's optimizer; empty where the job keeps its optimizers to itself."""
    baseline: Mapping[str, Any]
    """The job's own settings."""
    torch_version: str
    notes: list[str] = field(default_factory=list)
    """What the job says of itself, for every answer to carry."""

    @property
    def epoch_samples(self) -> int | None:
        """Samples of an epoch, as batches count them; None where nobody knows.

        The data of a job's own loader may count words, of which a row of a batch holds many.
        """
        if not self.own_loader:
            return self.num_samples
        return None if self.epoch_batches is None else self.epoch_batches * int(self.baseline["batch_size"])

    @property
    def data_limit(self) -> int | None:
        """Samples that a batch can have; None where nobody knows."""
        return self.widest_batch or self.num_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(Request[JobDescription]):
    """Ask what the job is: builds model and data, runs nothing."""

    kind: Literal["describe"] = "describe"
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpeed:
    """Measured speeds of a device."""

    kind: Literal["device_speed"] = "device_speed"
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureDevice(Request[DeviceSpeed]):
    """Ask how fast the device is: matrix products and copies."""

    kind: Literal["measure_device"] = "measure_device"
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMemory:
    """Memory of the GPU as a process sees it once its CUDA context stands."""

    kind: Literal["card_memory"] = "card_memory"
    name: str
    total_bytes: int
    free_bytes: int
    """What is left for torch: other processes and the context are already off."""
    capability: int
    """Major compute capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCard(Request[CardMemory]):
    """Ask how much memory of the GPU a process may have."""

    kind: Literal["read_card"] = "read_card"

    @property
    def environment(self) -> Environment:
        """That of the probes to come."""
        return EXPANDABLE


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A kind of request, the record that answers it, and the function of a child that makes it."""

    request: type[Request[Any]]
    result: type[Any]
    answered_by: str
    """module:function, imported in the child alone."""


RECORDS = (
    RecordKind(Describe, JobDescription, "legroom.child.description:describe"),
    RecordKind(MeasureDevice, DeviceSpeed, "legroom.child.device_peak:measure_device"),
    RecordKind(ReadCard, CardMemory, "legroom.child.meters:read_card"),
)
"""What several questions ask."""


@functools.cache
def record_kinds() -> Mapping[str, RecordKind]:
    """All kinds by the names of their requests: those here, and RECORDS in each question's `records.py`."""
    kinds = list(RECORDS)
    for question in QUESTIONS:
        records = part_of(question, "records")
        kinds += records.RECORDS if records else ()
    return {_name(kind.request): kind for kind in kinds}


def _name(record: type[Any]) -> str:
    return str(record.__dataclass_fields__["kind"].default)


def request_of(data: Mapping[str, Any]) -> Request[Any]:
    """The request a mapping describes, as our own parent wrote it: a child does without pydantic and its memory."""
    return record_kinds()[data["kind"]].request(**data)


def record_from(data: Mapping[str, Any]) -> Any:
    """A request or a result that crossed a process border or lay on disk, checked."""
    return _reader(data["kind"]).validate_python(data)


def to_json(record: Any) -> dict[str, Any]:
    """A record as plain mappings, lists and numbers."""
    return asdict(record)


@functools.cache
def _reader(name: str) -> "TypeAdapter[Any]":
    # pydantic stands at the border alone: importing it costs 80 ms that `--help` should not pay.
    from pydantic import TypeAdapter

    kinds = record_kinds()
    return TypeAdapter(
        kinds[name].request
        if name in kinds
        else next(kind.result for kind in kinds.values() if _name(kind.result) == name)
    )
