"""Answers that lie in a job's folder and still hold, so that a plan need not ask again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from legroom.environments import user_variables
from legroom.errors import UsageError
from legroom.logbook import FILE_NAME, RunStarted, read_lines
from legroom.questions.base import Answer, read_target
from legroom.questions.devices.answer import DevicesAnswer
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer, as_run
from legroom.questions.memory.records import MemoryQuestion
from legroom.questions.plan.evidence import torch_versions
from legroom.questions.rate.answer import RateAnswer
from legroom.questions.speed.answer import SpeedAnswer
from legroom.questions.variants.answer import VariantsAnswer

if TYPE_CHECKING:
    from legroom.reports.saved_answers import SavedAnswer


NEAR = 4.0
"""Times the batch of a device: what was seen of several at one so near tells enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Of which job, on which machine, and what an answer must be about."""

    folder: Path
    digest: str
    machine: str
    device: str
    precision: str | None
    """None: the job's own."""
    target: str = "same"
    torch_version: str = ""
    """Of the job's children now; empty: nobody looked, as nothing lay in the folder."""
    fresh: bool = False
    """Whether all is asked anew, whatever lies in the folder."""
    variables: Mapping[str, str] = field(default_factory=user_variables)
    """Of the user's environment, those that tell in times and memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAnswers:
    """Answers of this job as it is now, on this device and in this precision, the newest first."""

    answers: Sequence[Answer] = ()
    notes: Sequence[str] = ()

    @property
    def speed(self) -> SpeedAnswer | None:
        """The newest; one that timed closely goes before first looks."""
        found = [answer for answer in self.answers if isinstance(answer, SpeedAnswer)]
        return next((answer for answer in found if not answer.quick), found[0] if found else None)

    @property
    def loading(self) -> list[LoadingAnswer]:
        """One for each batch size that was asked for."""
        return [answer for answer in self.answers if isinstance(answer, LoadingAnswer)]

    def devices(self, batch_size: int, link: str | None, numbers: Sequence[int]) -> DevicesAnswer | None:
        """What so many devices take near that batch, over the link here or the one named."""
        for answer in self.answers:
            if isinstance(answer, DevicesAnswer) and 1 / NEAR <= answer.batch_size / batch_size <= NEAR:
                same_link = answer.link["measured"] if link is None else answer.link["name"] == link
                if same_link and {1, *numbers} <= {one["num_devices"] for one in answer.points}:
                    return answer
        return None

    def variants(self, batch_size: int) -> VariantsAnswer | None:
        """Whether bf16 and the like pay at that batch."""
        found = (answer for answer in self.answers if isinstance(answer, VariantsAnswer))
        return next((answer for answer in found if answer.batch_size == batch_size), None)

    @property
    def rates(self) -> list[RateAnswer]:
        """One for each batch size that was asked for and reached the target, by the search that a plan makes itself."""
        found = [answer for answer in self.answers if isinstance(answer, RateAnswer) and answer.reached]
        return [answer for answer in found if answer.method == "auto" and answer.fraction == 1]


def find_known(about: Circumstances) -> KnownAnswers:
    """What the folder holds of speed, loading and rate."""
    return _find(about, lambda answer: _is_about(answer, about))


def find_memory(about: Circumstances, question: MemoryQuestion) -> tuple[MemoryAnswer | None, Sequence[str]]:
    """The newest answer about the question's device, precision and budget, and a sentence where it is outdated."""
    found = _find(about, lambda answer: isinstance(answer, MemoryAnswer) and _same_memory(answer, question))
    return next((answer for answer in found.answers if isinstance(answer, MemoryAnswer)), None), found.notes


def has_answers(folder: Path) -> bool:
    """Whether any lie there."""
    return bool(_read(folder))


def _find(about: Circumstances, fits: Callable[[Answer], bool]) -> KnownAnswers:
    if about.fresh:
        return KnownAnswers()
    heads, entries, _ = read_lines(about.folder / FILE_NAME)
    versions = torch_versions(heads, entries)
    alike = [saved for saved in _read(about.folder) if fits(saved.answer)]
    current = [saved for saved in alike if _is_current(saved, heads, versions, about)]
    outdated = sorted({saved.question for saved in alike} - {saved.question for saved in current})
    return KnownAnswers(
        answers=[saved.answer for saved in current],
        notes=[
            f"The answer to {name} is from before the job's file changed, or of another machine, torch or legroom, "
            "or with other variables such as OMP_NUM_THREADS, and was not used"
            for name in outdated
        ],
    )


def _read(folder: Path) -> "list[SavedAnswer]":
    # Imported here: it brings rich, which every child and `import legroom` would pay.
    from legroom.reports.saved_answers import read_answers

    try:
        return read_answers(folder)[0]
    except UsageError:  # there are none yet
        return []


def _is_about(answer: Answer, about: Circumstances) -> bool:
    match answer:
        case SpeedAnswer(rule="throughput", share=0.9, batch_sizes=[]):  # others have another knee, or sizes left out
            precision = answer.precision
        case RateAnswer():
            if not _same_target(answer, about.target):
                return False
            precision = str(answer.settings["precision"])
        case VariantsAnswer():
            precision = str(answer.baseline["precision"])
        case DevicesAnswer(rule="legroom"):
            precision = answer.precision
        case LoadingAnswer(num_devices=1, rule="legroom"):
            precision = str(answer.settings.get("precision"))
        case _:
            return False
    wanted = about.precision or answer.baseline["precision"]
    return (str(answer.device), precision) == (about.device, str(wanted))


def _same_target(answer: RateAnswer, target: str) -> bool:
    if target == "same":
        return str(answer.target["from"]) in ("measured", "forecast")
    name, value = read_target(target, "same")
    return str(answer.target["name"]) == name and float(answer.target["value"]) == value


def _same_memory(answer: MemoryAnswer, question: MemoryQuestion) -> bool:
    same = answer.verified and answer.num_devices == question.num_devices and _same_budget(answer, question)
    if question.device == "cpu" and workers_proved(answer) < question.num_workers:
        return False
    if as_run(answer) != as_run(question):
        return False
    return same and (answer.device, answer.settings["precision"]) == (question.device, question.precision)


def workers_proved(answer: MemoryAnswer) -> int:
    """Loader processes that shared a host's budget in the proof; answers of before did not say: the job's own."""
    return int(answer.baseline["num_workers"]) if answer.num_workers is None else answer.num_workers


def _same_budget(answer: MemoryAnswer, question: MemoryQuestion) -> bool:
    """Of a budget nobody named it is enough that what was proved still fits what is free now."""
    if question.budget_named or answer.budget_named:
        return question.budget_named == answer.budget_named and answer.budget_bytes == question.budget_bytes
    return answer.peak_bytes <= question.budget_bytes


def _is_current(
    saved: "SavedAnswer", heads: Sequence[RunStarted], versions: Mapping[str, str], about: Circumstances
) -> bool:
    """Whether the last run of that question before the answer was of the same file on the same machine, with the same
    torch, legroom and variables of the environment."""
    from legroom import __version__

    seconds = len("2026-01-01T00:00:00")  # heads are written without fractions
    asked = [
        head
        for head in heads
        if head.command == saved.question and head.started_at[:seconds] <= saved.answered_at[:seconds]
    ]
    if not asked or about.torch_version not in ("", versions.get(asked[-1].run, about.torch_version)):
        return False
    last, now = asked[-1], (about.digest, about.machine, __version__)
    return (last.digest, last.machine, last.legroom_version) == now and last.has_variables(about.variables)
