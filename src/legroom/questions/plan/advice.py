"""Joins the answers to all questions into one plan, by what was measured and no more."""

from dataclasses import asdict, fields, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.job import Settings
from legroom.laws.time_to_target import joined_spread
from legroom.logbook import Records
from legroom.offers import forecast_offers
from legroom.questions.base import Recommendation
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.baseline import baseline_of
from legroom.questions.plan.batch import knee_note, limit_of, rate_note, recommend_batch
from legroom.questions.plan.code import with_code
from legroom.questions.plan.device_words import device_notes
from legroom.questions.plan.factors import LEAST_DOUBT
from legroom.questions.plan.faster import Changes, variables_at, variants_at
from legroom.questions.plan.forecast import (
    FORECAST_DOUBT,
    Forecast,
    cost_in_money,
    factors_of,
    forecast_of,
)
from legroom.questions.plan.kept import changes_that_pay, own_run_seconds
from legroom.questions.plan.more_factors import more_factors
from legroom.questions.plan.recommend import by_forecast, by_nearest, nearest, own_batch, workers
from legroom.questions.plan.records import PlanQuestion
from legroom.questions.plan.sizes import with_sizes
from legroom.questions.plan.tried import own_steps, rehearsals_of, spread_of, tried_note
from legroom.training.several import norm_note
from legroom.units import format_seconds

SETTINGS = tuple(item.name for item in fields(Settings))


def advise(records: Records, question: PlanQuestion) -> PlanAnswer:
    """The plan that the answers give, at the job's own model size or at another that was planned for."""
    own = with_code(advise_own_size(records, question), records.description().optimizer_name)
    return with_sizes(own, question.sizes)


def advise_own_size(records: Records, question: PlanQuestion) -> PlanAnswer:
    """The plan for the job's own model; what nothing was measured for stays as the user has it."""
    memory = question.memory
    assert memory is not None
    baseline = replace(Settings(**question.baseline), precision=memory.settings["precision"], num_devices=1)
    forecast = forecast_of(question)
    adopted = forecast if forecast and forecast.is_better else None
    changes, description = changes_that_pay(question), records.description()
    found = _recommend(question, memory, baseline, adopted, changes, own_step=description.own_step)
    quick, variables = _faster(question, baseline, found, changes)
    found += quick
    settings = replace(baseline, **{item.name: item.value for item in found if item.name in SETTINGS})
    decided = {item.name for item in found}
    words = _forecast_words(question, forecast, adopted)
    kept_seconds = None if adopted else words["predicted_seconds"]
    factors = {**factors_of(question, forecast), **more_factors(question, forecast, kept_seconds)} if forecast else {}
    offers, unknown = _offers(records, question, settings, factors, is_own=adopted is None)
    missing = [*_unmet(adopted), *question.missing, *unknown]
    sizes = (baseline.batch_size, settings.batch_size)
    norms = [] if question.devices else norm_note(description.normalises_by_batch, *sizes, several=False)
    cooldown = next((item.value for item in found if item.name == "cooldown_steps"), None)
    names = {item.name for item in fields(PlanAnswer)}
    target = question.target
    return PlanAnswer(
        job=records.head.job,
        machine=memory.machine,
        seconds=sum(question.spent.values()) or records.seconds(),
        notes=[*question.notes, *_notes(question, forecast, baseline, settings), *norms, *memory.notes],
        not_measured=[*memory.not_measured, *missing],
        recommendations=[
            *(item for item in found if item.name != "cooldown_steps"),
            *memory.recommendations,
            *_recommend_evaluation(memory),
            *_recommend_allocator(memory),
            *variables,
            *(_keep(name, getattr(baseline, name), question) for name in SETTINGS if name not in decided),
        ],
        goal=question.goal,
        target=f"{target['name']}={target['value']!r}" if target else "",
        cooldown_steps=cooldown,
        num_devices_missing=max(0, settings.num_devices - question.num_devices_here),
        **words,
        kept=adopted is None and not changes and words["predicted_seconds"] is not None,
        settings=asdict(settings),
        baseline=asdict(baseline),
        factors=factors,
        offers=offers,
        spent=dict(question.spent),
        found=dict(question.found),
        before=dict(question.before),
        cost_seconds=sum(question.spent.values()) + sum(question.before.values()),
        missing=missing,
        shown_code=question.code,
        plan_path=question.path,
        **{name: value for name, value in asdict(settings).items() if name in names},
    )


def _offers(
    records: Records, question: PlanQuestion, settings: Settings, factors: dict[str, Any], *, is_own: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """What the plan's run, or the own one that stays, would take on cards that were named, or why nobody can tell."""
    if not question.offers:
        return [], []
    words: dict[str, Any] = {"machine": records.head.machine, "settings": settings, "batch_size": settings.batch_size}
    try:
        return forecast_offers(question.offers, factors, records.entries, is_own=is_own, **words), []
    except NothingMeasured as error:
        return [], [f"What other cards would take was not forecast. {error}"]


def _recommend(
    question: PlanQuestion,
    memory: MemoryAnswer,
    baseline: Settings,
    adopted: Forecast | None,
    changes: Changes,
    *,
    own_step: bool,
) -> list[Recommendation]:
    """What to change of the job's own settings."""
    if adopted is not None:
        return by_forecast(question, memory, adopted)
    near = nearest(question)
    if near is not None:
        return by_nearest(question, near)
    if question.is_judged and baseline.batch_size <= limit_of(memory):
        loader = workers(question.loading, baseline.batch_size, exactly=True)
        return [*own_batch(baseline, memory), *(item for item in loader if item.name in changes.settings)]
    batch = recommend_batch(question, memory, own_step=own_step)
    return [*batch, *workers(question.loading, batch[0].value)]


def _faster(
    question: PlanQuestion, baseline: Settings, found: list[Recommendation], changes: Changes
) -> tuple[list[Recommendation], list[Recommendation]]:
    """The variants that pay at the batch to be run, and the variables of the environment; where the job's own settings
    stay, those that were tried out with them."""
    chosen = {"batch_size": baseline.batch_size, **{item.name: item.value for item in found}}
    place = int(chosen["batch_size"]), int(chosen.get("num_devices", 1))
    quick, variables = variants_at(question, *place), variables_at(question, *place)
    if question.is_judged and "learning_rate" not in chosen:
        quick = quick if changes.settings else None
        variables = variables if changes.variables else None
    return list(quick.recommendations) if quick else [], [variables.item] if variables else []


def _unmet(adopted: Forecast | None) -> list[str]:
    """Why no time is foretold for a batch or a number of devices that was named."""
    if adopted is None or adopted.can_rely:
        return []
    return [
        "The plan is what was asked for, but most runs that tried it out missed the target. Leave out --batch-size or "
        "--devices, or raise --budget"
    ]


def _stay(question: PlanQuestion) -> bool:
    """Whether the job's own settings are what runs, to a target of which they are known to be worth the wait."""
    is_known = question.target is not None and question.target["from"] != "begun"
    return is_known and nearest(question) is None


def _forecast_words(question: PlanQuestion, forecast: Forecast | None, adopted: Forecast | None) -> dict[str, Any]:
    """Seconds, range and money of what is to be run; those of the job's own run where it stays."""
    words: dict[str, Any] = dict.fromkeys(("predicted_seconds", "predicted_range", "predicted_cost", "num_steps"))
    baseline = baseline_of(question) if forecast is None else forecast.baseline
    words |= {"baseline_seconds": baseline.seconds, "baseline_from": baseline.source}
    if adopted is not None and not adopted.can_rely:
        words["num_steps"] = adopted.length
    elif adopted is not None:
        chosen = adopted.chosen
        words |= {
            "predicted_seconds": chosen.seconds,
            "predicted_range": adopted.range,
            "predicted_cost": cost_in_money(question, chosen.seconds, chosen.num_paid),
            "num_steps": adopted.length,
        }
    elif baseline.seconds is not None and baseline.source != "at least" and _stay(question):
        doubt = LEAST_DOUBT if forecast is None else forecast.seconds_spread
        guess = FORECAST_DOUBT if baseline.source == "forecast" else 1.0
        spread = joined_spread(joined_spread(doubt, guess), spread_of(own_steps(question)))
        seconds = own_run_seconds(question, baseline.candidate) if baseline.candidate else baseline.seconds
        words |= {
            "predicted_seconds": seconds,
            "predicted_range": (seconds / spread, seconds * spread),
            "predicted_cost": cost_in_money(question, seconds, 1),
        }
    return words


def _notes(question: PlanQuestion, forecast: Forecast | None, baseline: Settings, settings: Settings) -> list[str]:
    if forecast is None:
        return [] if question.is_judged else [*rate_note(baseline, settings), *knee_note(question)]
    return [*tried_note(rehearsals_of(question, forecast.chosen)), *_choice_notes(question, forecast, baseline)]


def _choice_notes(question: PlanQuestion, forecast: Forecast, baseline: Settings) -> list[str]:
    if not forecast.is_better:
        low, high = (format_seconds(seconds) for seconds in forecast.range)
        chosen = forecast.chosen
        rate = forecast.learned.rate(chosen.size) * chosen.rate_share
        on = f" on {chosen.num_devices:,} devices" if chosen.num_devices > 1 else ""
        return [
            f"Batches of {chosen.batch_size:,}{on} at a rate of {rate:.3g} should take {low} to {high}, which is not "
            "surely less than the job's own settings take; they stay"
        ]
    target, notes = question.target or {}, device_notes(question, baseline, forecast)
    if target.get("from") == "forecast":
        told = "The target is a forecast of what the job's own settings reach, from the beginning of their run"
        return [told, *notes]
    return notes


def _recommend_evaluation(memory: MemoryAnswer) -> list[Recommendation]:
    size, found = memory.eval_batch_size, "estimated" if memory.estimate else "proved"
    if size is None:
        return []
    because = f"an evaluation pass of that size was {found} to fit the budget"
    evidence = memory.recommendations[0].evidence
    return [Recommendation(name="eval_batch_size", value=size, range=(1, size), because=because, evidence=evidence)]


def _recommend_allocator(memory: MemoryAnswer) -> list[Recommendation]:
    """What the batch was found with on a GPU; with the other, less may fit."""
    if memory.allocator is None:
        return []
    found = "estimated" if memory.estimate else "proved"
    because = f"the largest batch was {found} with it; legroom train --plan sets it"
    evidence = memory.recommendations[0].evidence
    return [Recommendation(name="allocator", value=memory.allocator, range=None, because=because, evidence=evidence)]


def _keep(name: str, value: Any, question: PlanQuestion) -> Recommendation:
    because = "the job's own"
    if name == "num_devices" and question.baseline["num_devices"] != 1:
        own = question.baseline["num_devices"]
        because = f"one device, unless --devices names more; the job's own is {own}"
    return Recommendation(name=name, value=value, range=None, because=because)
