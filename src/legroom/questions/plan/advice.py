"""Joins the answers to all questions into one plan, by what was measured and no more."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from legroom.job import Settings
from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.batch import rate_note, recommend_batch
from legroom.questions.plan.records import PlanQuestion

UNMEASURED = {
    "num_workers": "how fast samples are loaded",
    "prefetch_factor": "how fast samples are loaded",
    "learning_rate": "which rate suits this batch size",
    "warmup_steps": "which rate suits this batch size",
    "schedule": "which schedule suits this batch size",
    "clip_norm": "which rate suits this batch size",
    "num_epochs": "how many epochs the target needs",
    "precision": "what another precision would give",
    "seed": "how much the seed matters",
}
"""Questions that no measurement of this plan answered, by the setting each would decide."""
MORE_DEVICES = "what more devices would give"


def advise(records: Records, question: PlanQuestion) -> PlanAnswer:
    """The plan that the answers give; what nothing was measured for stays as the user has it."""
    memory, speed = question.memory, question.speed
    baseline = replace(Settings(**memory.baseline), precision=memory.settings["precision"])
    batch = recommend_batch(baseline, memory, speed, own_step=records.description().own_step)
    found = [*batch, *_recommend_workers(question.loading, batch[0].value)]
    settings = replace(baseline, num_devices=1, **{item.name: item.value for item in found})
    kept = {name: why for name, why in UNMEASURED.items() if name not in {item.name for item in found}}
    names = {item.name for item in fields(PlanAnswer)}
    return PlanAnswer(
        job=records.head.job,
        machine=memory.machine,
        seconds=records.seconds(),
        notes=[*question.notes, *rate_note(baseline, settings), *memory.notes],
        not_measured=[*memory.not_measured, *dict.fromkeys(kept.values()), MORE_DEVICES],
        recommendations=[
            *found,
            *memory.recommendations,
            *_recommend_evaluation(memory),
            *_recommend_allocator(memory),
            *([item for item in speed.recommendations if item.name == "environment"] if speed else []),
            *(_keep(name, getattr(baseline, name), why) for name, why in kept.items()),
            _one_device(baseline),
        ],
        goal=question.goal,
        num_steps=None,
        predicted_seconds=None,
        predicted_range=None,
        baseline_seconds=None,
        settings=asdict(settings),
        plan_path=question.path,
        **{name: value for name, value in asdict(settings).items() if name in names},
    )


def _recommend_workers(answers: Sequence[LoadingAnswer], batch_size: int) -> list[Recommendation]:
    """What `loading` found at this batch, or else at the batch it was asked for last."""
    if not answers:
        return []
    answer = next((one for one in answers if one.batch_size == batch_size), answers[0])
    where = "" if answer.batch_size == batch_size else f", measured at a batch of {answer.batch_size:,}"
    because = {item.name: item.because + where for item in answer.recommendations}
    workers = Recommendation(
        name="num_workers",
        value=answer.num_workers,
        range=answer.range,
        because=because["num_workers"],
        evidence=["loader_rates"],
    )
    ahead = because.get("prefetch_factor", "without workers it has no effect")
    return [
        workers,
        replace(workers, name="prefetch_factor", value=answer.prefetch_factor, range=None, because=ahead),
    ]


def _recommend_evaluation(memory: MemoryAnswer) -> list[Recommendation]:
    size, found = memory.eval_batch_size, "estimated" if memory.estimate else "proved"
    because = f"an evaluation pass of that size was {found} to fit the budget"
    evidence = memory.recommendations[0].evidence
    return [Recommendation(name="eval_batch_size", value=size, range=(1, size), because=because, evidence=evidence)]


def _keep(name: str, value: Any, question: str) -> Recommendation:
    because = f"the job's own; not measured: {question}"
    return Recommendation(name=name, value=value, range=None, because=because)


def _recommend_allocator(memory: MemoryAnswer) -> list[Recommendation]:
    """What the batch was found with on a GPU; with the other, less may fit."""
    if memory.allocator is None:
        return []
    found = "estimated" if memory.estimate else "proved"
    because = f"the largest batch was {found} with it; legroom train --plan sets it"
    evidence = memory.recommendations[0].evidence
    return [Recommendation(name="allocator", value=memory.allocator, range=None, because=because, evidence=evidence)]


def _one_device(baseline: Settings) -> Recommendation:
    own = "" if baseline.num_devices == 1 else f"; the job's own is {baseline.num_devices}"
    because = f"legroom trains on one device so far{own}; not measured: {MORE_DEVICES}"
    return Recommendation(name="num_devices", value=1, range=None, because=because)


def split_recommendations(answer: PlanAnswer) -> tuple[list[Recommendation], list[Recommendation]]:
    """What was found, and what stays as the job has it because nothing was measured for it."""
    kept = [item for item in answer.recommendations if not item.evidence]
    return [item for item in answer.recommendations if item not in kept], kept
