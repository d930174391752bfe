"""Joins the answers to all questions into one plan, by what was measured and no more."""

from dataclasses import dataclass, fields, replace
from typing import Any

from legroom.advisors.memory import MemoryAnswer
from legroom.answers import Answer
from legroom.job import JobAddress, Settings
from legroom.laws.memory import split_batch
from legroom.plan import Plan, Recommendation
from legroom.units import format_bytes

UNMEASURED = {
    "num_workers": "how fast samples are loaded",
    "prefetch_factor": "how fast samples are loaded",
    "learning_rate": "which rate suits this batch size",
    "warmup_steps": "which rate suits this batch size",
    "schedule": "which schedule suits this batch size",
    "clip_norm": "which rate suits this batch size",
    "num_epochs": "how many epochs the target needs",
    "num_devices": "what more devices would give",
    "precision": "what another precision would give",
    "seed": "how much the seed matters",
}
"""Questions that no measurement of this plan answered, by the setting each would decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer(Answer):
    """The plan, with the names scripts rely on; None stands for what was not measured."""

    batch_size: int
    accumulation_steps: int
    num_workers: int
    prefetch_factor: int
    learning_rate: float
    warmup_steps: int
    schedule: str
    num_steps: int | None
    num_epochs: int
    num_devices: int
    precision: str
    goal: str
    predicted_seconds: float | None
    predicted_range: tuple[float, float] | None
    baseline_seconds: float | None
    settings: dict[str, Any]


def combine(address: JobAddress, memory: MemoryAnswer, *, goal: str = "time") -> Plan:
    """The plan that the answers give; what nothing was measured for stays as the user has it."""
    baseline = replace(Settings(**memory.baseline), precision=memory.settings["precision"])
    batch, accumulation = _recommend_batch(baseline, memory)
    settings = replace(baseline, batch_size=batch.value, accumulation_steps=accumulation.value)
    kept = [
        Recommendation(
            name=name, value=getattr(baseline, name), range=None, because=f"the job's own; not measured: {question}"
        )
        for name, question in UNMEASURED.items()
    ]
    evaluation = Recommendation(
        name="eval_batch_size",
        value=memory.eval_batch_size,
        range=(1, memory.eval_batch_size),
        because=f"the largest evaluation pass {'estimated' if memory.estimate else 'proved'} to fit the budget",
        evidence=memory.recommendations[0].evidence,
    )
    return Plan(
        job=address.text,
        options=address.options,
        machine=memory.machine,
        goal=goal,
        settings=settings,
        recommendations=[
            batch,
            accumulation,
            *memory.recommendations,
            evaluation,
            *_recommend_allocator(memory),
            *kept,
        ],
        notes=memory.notes,
        not_measured=[*memory.not_measured, *dict.fromkeys(UNMEASURED.values())],
    )


def _recommend_batch(baseline: Settings, memory: MemoryAnswer) -> tuple[Recommendation, Recommendation]:
    """The job's own batch, split where it does not fit: whether a larger one pays is another question."""
    limit = min(memory.range[0], memory.data_limit or memory.range[0])
    wanted = baseline.batch_size * baseline.accumulation_steps
    size, steps = split_batch(wanted, limit) if baseline.batch_size > limit else _as_is(baseline)
    budget, evidence = format_bytes(memory.budget_bytes), memory.recommendations[0].evidence
    if baseline.batch_size > limit:
        because = f"your {wanted:,} at once do not fit {budget}; {steps} passes of {size:,} give the same update"
    else:
        bound = "all of the data set" if limit == memory.data_limit else f"the most that {budget} hold"
        because = f"the job's own; up to {limit:,} would fit ({bound}), but whether more pays was not measured"
    return (
        Recommendation(name="batch_size", value=size, range=(1, limit), because=because, evidence=evidence),
        Recommendation(name="accumulation_steps", value=steps, range=None, because=because, evidence=evidence),
    )


def _recommend_allocator(memory: MemoryAnswer) -> list[Recommendation]:
    """What the batch was found with on a GPU; with the other, less may fit."""
    if memory.allocator is None:
        return []
    found = "estimated" if memory.estimate else "proved"
    because = f"the largest batch was {found} with it; legroom train --plan sets it"
    evidence = memory.recommendations[0].evidence
    return [Recommendation(name="allocator", value=memory.allocator, range=None, because=because, evidence=evidence)]


def _as_is(baseline: Settings) -> tuple[int, int]:
    return baseline.batch_size, baseline.accumulation_steps


def answer_of(plan: Plan, *, seconds: float) -> PlanAnswer:
    """The plan as an answer like all others."""
    names = {item.name for item in fields(PlanAnswer)} - {item.name for item in fields(Answer)}
    chosen = {item.name: getattr(plan.settings, item.name) for item in fields(Settings)}
    return PlanAnswer(
        job=plan.job,
        machine=plan.machine,
        seconds=seconds,
        notes=plan.notes,
        not_measured=plan.not_measured,
        recommendations=plan.recommendations,
        goal=plan.goal,
        num_steps=None,
        predicted_seconds=None,
        predicted_range=None,
        baseline_seconds=None,
        settings=chosen,
        **{name: value for name, value in chosen.items() if name in names},
    )
