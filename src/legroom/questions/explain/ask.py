"""`legroom explain`: why does a plan say so? Read from its file, and from what lies beside it."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legroom.errors import UsageError
from legroom.logbook import FILE_NAME, Entry, read_lines
from legroom.offers import offers_table
from legroom.plan_file import Plan, read_plan
from legroom.questions.base import Answer, Recommendation
from legroom.questions.explain.what_if import batch_table
from legroom.requests import record_kinds
from legroom.setting_rules import is_number

if TYPE_CHECKING:
    from legroom.reports.saved_answers import SavedAnswer

WHEN_MADE = "When the plan was made: "
OF_FORECASTS = ("step_times", "grown")
"""Records by which a plan forecasts batches that it does not choose: how long steps and learning take."""
WHERE = "questions."
"""Before a question's name in the address of the function that answers a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainAnswer(Answer):
    """Settings of a plan with the numbers behind each."""

    plan_path: str
    goal: str
    target: str
    predicted_seconds: float | None
    predicted_range: tuple[float, float] | None
    explained: list[dict[str, Any]]
    """`name`, `value`, `range`, `because`, `evidence` (kind, number of records, seconds they took), `findings`,
    `edited`: whether it is not what the plan found, of which reason and range are."""
    batches: list[dict[str, Any]]
    """What other batch sizes would take, by the plan's own laws; empty where they are not kept beside it. Where nobody
    measured the critical batch size, both ends differ."""
    edited: bool = False
    """Whether the plan was changed by hand: it then foretells nothing."""
    kept: bool = False
    """Whether the job's own settings stay: the batches are then told at a rate that was found and not recommended."""
    offers: list[dict[str, Any]] = field(default_factory=list)
    """Forecasts for cards that can be rented, the soonest first; empty where none was named."""


def explain(plan: Path | str, name: str | None = None, *, offers: str | None = None) -> ExplainAnswer:
    """Why does the plan say so? All that it found, or one setting of it, with the numbers. Measures nothing.

    offers: cards with the price of their hour, as "h100=2.9/h,l4=0.7/h": what the plan's run would take on them.
    """
    path = Path(plan)
    planned = read_plan(path)
    chosen = _chosen(planned, path, name)
    entries, saved, notes = _beside(path.parent)
    plans = [each.answer for each in saved if each.question == "plan"]
    factors = getattr(plans[0], "factors", None) or {} if plans else {}
    batch_size, kept = planned.value("batch_size"), planned.value("num_steps") is None
    batches = batch_table(factors, batch_size, kept=kept) if name in (None, "batch_size") else []
    found = {item.name: item.value for item in plans[0].recommendations} if plans else {}
    return ExplainAnswer(
        job=planned.job,
        machine=planned.machine,
        seconds=0.0,
        notes=[*(WHEN_MADE + note for note in planned.notes), *notes] if name is None else notes,
        not_measured=planned.not_measured if name is None else [],
        plan_path=str(path),
        goal=planned.goal,
        target=planned.target,
        predicted_seconds=planned.predicted_seconds,
        predicted_range=planned.predicted_range,
        explained=[
            {
                **_explain(_with_forecasts(item) if batches else item, entries, saved),
                "edited": item.value != found.get(item.name, item.value) or (planned.edited and _is_outside(item)),
            }
            for item in chosen
        ],
        offers=offers_table(offers, planned, factors, entries) if offers is not None else [],
        batches=batches,
        kept=kept,
        edited=planned.edited,
    )


def _chosen(plan: Plan, path: Path, name: str | None) -> list[Recommendation]:
    if name is None:
        return [item for item in plan.recommendations if item.evidence]
    found = [item for item in plan.recommendations if item.name == name]
    if not found:
        names = [item.name for item in plan.recommendations]
        close = difflib.get_close_matches(name, names)
        known = f"Did you mean {' or '.join(close)}?" if close else f"It has: {', '.join(names)}"
        raise UsageError(f"{path} says nothing of {name!r}. {known}")
    return found


def _beside(folder: Path) -> "tuple[list[Entry], list[SavedAnswer], list[str]]":
    """Records and answers that lie beside the plan."""
    # Imported here: it brings rich, which `import legroom` would pay.
    from legroom.reports.saved_answers import read_answers

    path = folder / FILE_NAME
    entries = read_lines(path)[1] if path.is_file() else []
    try:
        saved, notes = read_answers(folder)
    except UsageError:
        saved, notes = [], []
    if not entries:
        notes = [*notes, f"There is no logbook in {folder}: only what the plan's file itself says can be told"]
    return entries, saved, notes


def _with_forecasts(item: Recommendation) -> Recommendation:
    """The batch resting on what tells of other batches too, also where the job's own was only proved to fit."""
    if item.name != "batch_size":
        return item
    return replace(item, evidence=list(dict.fromkeys([*item.evidence, *OF_FORECASTS])))


def _explain(item: Recommendation, entries: Sequence[Entry], saved: "Sequence[SavedAnswer]") -> dict[str, Any]:
    return {
        "name": item.name,
        "value": item.value,
        "range": item.range,
        "because": item.because,
        "evidence": [_weight(kind, entries) for kind in item.evidence],
        "findings": [finding for kind in item.evidence for finding in _findings(kind, saved)],
    }


def _is_outside(item: Recommendation) -> bool:
    """Whether the value is not within its own range."""
    if item.range is None or not is_number(item.value):
        return False
    low, high = item.range
    return not low <= item.value <= high


def _weight(kind: str, entries: Sequence[Entry]) -> dict[str, Any]:
    """How many records of that kind there are, and what they took."""
    mine = [entry for entry in entries if kind in (entry.request.kind, entry.result.kind)]
    return {"kind": kind, "num_records": len(mine), "seconds": sum(entry.seconds for entry in mine)}


def _findings(kind: str, saved: "Sequence[SavedAnswer]") -> list[dict[str, Any]]:
    """What the question that asks for such records answered last: its sentence and its facts."""
    from legroom.reports.views import views

    questions = _questions_by_kind()
    newest = next((each for each in saved if each.question == questions.get(kind)), None)
    view = None if newest is None else views()[newest.question]
    if newest is None or view is None or view.section is None:
        return []
    section = view.section(newest.answer, ())
    facts = [list(fact) for fact in section.facts]
    return [{"question": newest.question, "summary": section.summary, "facts": facts}]


def _questions_by_kind() -> Mapping[str, str]:
    """The question that asks for each kind of request and of result."""
    found: dict[str, str] = {}
    for name, kind in record_kinds().items():
        _, here, rest = kind.answered_by.partition(WHERE)
        if here:
            result = str(kind.result.__dataclass_fields__["kind"].default)
            found |= dict.fromkeys((name, result), rest.partition(".")[0])
    return found
