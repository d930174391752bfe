"""What a plan is made of: answers to other questions, and what runs by the job's own settings showed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from legroom.errors import UsageError
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.speed.answer import EnvironmentAnswer, SpeedAnswer
from legroom.questions.variants.answer import VariantsAnswer
from legroom.requests import RecordKind

if TYPE_CHECKING:
    from legroom.logbook import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A run by the job's own settings: how fast it trains, and when it was at the target."""

    batch_size: int
    """Of a pass."""
    num_passes: int = 1
    num_workers: int
    num_steps: int
    """Updates it made."""
    step_seconds: float
    """Of an update with its batch, evaluations left out."""
    wait_seconds: float | None
    """Of an update, those that were spent on waiting for its batch; None where nobody looked."""
    evaluation_seconds: float
    """Of one pass over the validation data."""
    steps_to_target: int | None
    """Updates before the first evaluation at the target; None where none was there."""
    value: float | None = None
    """The best loss or score of its evaluations."""
    ended: bool = True
    """Whether it came to its end or to the target, and not to the end of a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The run that a plan would name, tried out to the target with a seed that nothing was sought with."""

    size: int
    """Samples of an update."""
    num_devices: int = 1
    rate_share: float = 1.0
    """Of the rate that was found, that it ran with."""
    length_share: float = 1.0
    """Of the updates that were promised first: less where a shorter run is tried out."""
    length: int
    """Updates that it was to make."""
    num_steps: int
    """Updates before the first evaluation at the target; all of them where none was there."""
    is_there: bool
    margin: float | None = None
    """By how much its last evaluation was better than the target; None where there was none, or nobody kept it."""
    diverged: bool = False
    """Whether it ended because its loss was no number any more, or rose without end."""
    step_seconds: float
    """Of an update with its batch, evaluations left out."""
    evaluation_seconds: float
    """Of one pass over the validation data."""
    seconds: float = 0.0
    """Of all of it, its evaluations included."""
    own_step_seconds: float | None = None
    """Of an update by the job's own settings, in a turn right before it; None where none was timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTurn:
    """Updates by the job's own settings, and right after them the same with what should make them faster."""

    own_step_seconds: float
    """Of an update with its batch, evaluations left out."""
    step_seconds: float
    """Of one with the changes."""
    settings: Mapping[str, Any]
    """What was changed of them."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment, that were set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPlan:
    """What the same target takes with a model of another size."""

    model_size: str
    """As "width=64"."""
    num_parameters: int
    plan: PlanAnswer | None
    """None where none could be made."""
    why: str = ""
    """Why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """Which plan do these answers give? It holds them whole: those in the folder may be replaced by newer ones."""

    path: str
    """Of the plan.toml."""
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """The job's own settings."""
    num_samples: int | None = None
    """Of the data set; None where nobody knows."""
    parameter_bytes: int = 0
    memory: MemoryAnswer | None = None
    """None while others are asked; a plan is made of one."""
    speed: SpeedAnswer | None = None
    loading: Sequence[LoadingAnswer] = ()
    """One for each batch size that was asked for, the newest first."""
    is_judged: bool = False
    """Whether the job has what a rate is sought by."""
    rates: Sequence[RateAnswer] = ()
    """One for each batch size that was asked for; the first was asked first."""
    runs: Sequence[OwnRun] = ()
    """By the job's own settings, one for each seed."""
    rehearsals: Sequence[Rehearsal] = ()
    """Of what was chosen, one for each seed; none where the budget did not last for them."""
    variants: VariantsAnswer | None = None
    """Whether bf16 and the like pay for the run; None where it is too short for asking to pay."""
    environment: EnvironmentAnswer | None = None
    """Whether variables of the environment pay for it."""
    turns: Sequence[OwnTurn] = ()
    """Of the job's own updates, where its settings stay and others were found to make these faster."""
    looks_samples: int | None = None
    """Samples between two evaluations of a run that is compared; None: an epoch."""
    paces: Mapping[int, float] = field(default_factory=dict)
    """Seconds of an update while `rate` trained, by batch size."""
    trial_workers: int | None = None
    """Loader processes of those trainings, where not the job's own."""
    devices: DevicesAnswer | None = None
    """What several devices take; None where one alone is asked for."""
    numbers: Sequence[int] = (1,)
    """Of devices, among which the plan chooses."""
    num_devices_here: int = 1
    offers: str = ""
    """Cards that can be rented, as h100=2.9/h,l4=0.7/h; empty where none was named."""
    sizes: Sequence[SizedPlan] = ()
    """Of the model, among which the plan chooses; empty: its own alone."""
    num_cores: int = 1
    driver: str = ""
    """Of the GPUs, that the plan was made with; empty on a CPU. What the job says of itself names the torch."""
    goal: str = "fastest"
    price_per_hour: float | None = None
    """Of the device."""
    batch_size: int | None = None
    """That the user named; None where it is to be found."""
    code: str = ""
    """The library whose lines are printed with the answer; empty: none."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each question took."""
    found: Mapping[str, str] = field(default_factory=dict)
    """What each of them found, in a few words."""
    before: Mapping[str, float] = field(default_factory=dict)
    """Seconds that measuring took of what lay in the folder already."""
    missing: Sequence[str] = ()
    """What could not be asked, and what that would need, a sentence each."""
    notes: Sequence[str] = ()
    """Why some answers were left alone, and where the search for the largest batch ended."""

    @property
    def own_size(self) -> int:
        """Samples of an update by the job's own settings."""
        return int(self.baseline["batch_size"]) * int(self.baseline["accumulation_steps"])

    @property
    def own_steps(self) -> int | None:
        """Updates of a whole run by the job's own settings; None where nobody knows the length of an epoch."""
        if self.num_samples is None:
            return None
        return int(self.baseline["num_epochs"]) * max(1, self.num_samples // self.own_size)

    @property
    def target(self) -> dict[str, Any] | None:
        """What is to be reached: `name`, `value` and `from`; None where no rate was sought."""
        return self.rates[0].target if self.rates else None


RECORDS: tuple[RecordKind, ...] = ()
QUESTION = PlanQuestion


def default_question(records: "Records") -> PlanQuestion:
    """Plans of before said nothing of the answers they were made of."""
    raise UsageError("This logbook is from before plans were written down whole. Run legroom plan again")
