"""What a job is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from legroom.records.environments import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Ask what the job is: builds model and data, runs nothing."""

    fresh: ClassVar[bool] = False
    environment: ClassVar[Environment | None] = None
    """None: any worker will do."""
    kind: Literal["describe"] = "describe"
    seed: int = 0


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
    uneven: bool
    """Whether samples differ in size, so that the worst batch is larger than the typical one."""
    own_step: bool
    own_loader: bool
    widest_batch: int | None = None
    """The largest batch the job's own loader gives; None where it has none, or no limit was met."""
    widest_valid_batch: int | None = None
    has_score: bool
    baseline: Mapping[str, Any]
    """The job's own settings."""
    torch_version: str
    notes: list[str] = field(default_factory=list)
    """What the job says of itself, for every answer to carry."""
