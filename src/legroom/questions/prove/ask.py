"""`legroom prove`: did the plan pay?"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from legroom.errors import UsageError
from legroom.host.target import check_cuda, choose_target
from legroom.job_address import AnyJob, JobAddress, address_of
from legroom.plan_file import Plan
from legroom.plan_use import blaming, plan_for, samples_between_looks
from legroom.questions.base import START_SECONDS, Foreseen, check_counts, foreseen_probe, read_target
from legroom.questions.prove.advice import advise
from legroom.questions.prove.answer import ProveAnswer
from legroom.questions.prove.arms import Arms, best_of_sweep
from legroom.questions.prove.records import FIRST_SEED, Goal, Metric, ProveQuestion
from legroom.questions.prove.runs import run_all
from legroom.requests import Describe, JobDescription
from legroom.session import Run, Session, keep, open_session
from legroom.training.records import Train

DEFAULT, SWEEP = "default", "sweep"
OTHER_TARGET = "The plan was made for another target, so its forecast is not scored here"
EDITED = "The plan was changed since legroom wrote it, so its forecast is not scored here"


def prove(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    plan: Path | str | None = None,
    against: str = DEFAULT,
    target: str | None = None,
    seeds: int = 3,
    evaluate_samples: int | None = None,
    equal_time: bool = True,
    price: float | None = None,
    force: bool = False,
    run: Run | None = None,
) -> ProveAnswer:
    """Train the plan and its rival to the same target, in turn, with several fresh seeds: which is sooner there?

    against: "default" for the job's own settings, "sweep" for the best point of `legroom sweep` in the same folder, or
    another plan.toml. target: "score=0.97"; where absent, the plan's.
    evaluate_samples: samples between evaluations, in both arms.
    equal_time: let the rival train to its own end, and the plan for as many seconds, to compare what they end with.
    price: of a device's hour; what both pay to the target is then told.
    """
    run = run or Run()
    address = address_of(job, options)
    check_counts({"--seeds": seeds, "--evaluate-samples": evaluate_samples})
    if price is not None and not 0 <= price < math.inf:
        raise UsageError(f"--price is {price:g}; it must be at least 0, as 2.5/h")
    check_cuda(run.host, device)
    planned = _read(plan, address, run, force=force)
    rival = _read(against, address, run, force=force) if against not in (DEFAULT, SWEEP) else None
    if not target and not planned.target:
        raise UsageError(f'{plan} names no target. Add --target score=0.97, or a line target = "score=0.97" to it')
    aim = read_target(target or planned.target)
    is_planned = not target or (bool(planned.target) and aim == read_target(planned.target))
    place, busy = choose_target(run.host, device).device, run.busy_notes()
    with open_session("prove", address, run) as session:
        description = session.describe(run.seed)
        _refuse(description, aim[0])
        goal: Goal = description.goal if aim[0] == "score" else "min"
        arms = Arms(run.host, place, description, run.timeout)
        _try_size(session, planned, Path(str(plan)), run.seed)
        mine = arms.of_plan(planned, Path(str(plan)))
        other = arms.of_plan(rival, Path(against)) if rival else _rival(session, arms, against, aim, goal)
        samples = evaluate_samples or _cadence(other, description)
        mine, others = (_looked_at(arm, samples) for arm in (mine, other))
        question = ProveQuestion(
            plan_path=str(plan),
            against=against,
            metric=aim[0],
            target=aim[1],
            goal=goal,
            plan=mine,
            rival=others,
            seeds=tuple(run.seed + FIRST_SEED + number for number in range(seeds)),
            evaluate_samples=samples,
            equal_time=equal_time,
            predicted_seconds=planned.predicted_seconds if is_planned else None,
            predicted_range=planned.predicted_range if is_planned else None,
            plan_cost_seconds=planned.cost_seconds,
            price_per_hour=price,
            notes=(*busy, *arms.notes, *_unscored(planned, is_planned=is_planned)),
        )
        session.note(question)
        run_all(session, question)
        return keep(session, advise(session.records, question))


def _read(plan: Path | str | None, address: JobAddress, run: Run, *, force: bool) -> Plan:
    if plan is None:
        raise UsageError("There is no plan to prove. Write one with legroom plan and name it: --plan plan.toml")
    return plan_for(Path(plan), address, run.host.name, force=force, tell=run.tell)


def _rival(session: Session, arms: Arms, against: str, aim: tuple[Metric, float], goal: Goal) -> Train:
    """The job's own run, or the best point of the sweep in the folder, which a note tells."""
    if against == DEFAULT:
        return arms.of_job()
    point, told = best_of_sweep(session.logbook, arms.device, *aim, goal)
    arms.notes.append(f"The rival is the best point of the sweep in this folder: {told}")
    return arms.of_sweep(point)


def _unscored(plan: Plan, *, is_planned: bool) -> list[str]:
    """Why the plan's forecast is not held against its runs."""
    if plan.edited:
        return [EDITED]
    return [] if is_planned or not plan.target else [OTHER_TARGET]


def _try_size(session: Session, plan: Plan, path: Path, seed: int) -> None:
    """Make a model of the size that a plan names, which the job may not have, before anything is trained."""
    size = plan.value("model_size")
    if not size:
        return
    child = session.engine.start(session.address.at_size(size), {})
    try:
        with blaming(path, "model_size"):
            child.ask(Describe(seed=seed), session.progress)
    finally:
        child.close()


def _looked_at(arm: Train, samples: int | None) -> Train:
    """The run evaluated after so many samples, or after every epoch."""
    return arm if samples is None else replace(arm, evaluate_steps=max(1, round(samples / _update(arm))))


def _update(arm: Train) -> int:
    each = int(arm.settings["batch_size"]) * int(arm.settings["accumulation_steps"])
    return each * int(arm.settings["num_devices"])


def _cadence(rival: Train, description: JobDescription) -> int | None:
    """Samples between evaluations, by the rival's whole run."""
    epoch, epochs = description.num_samples or 0, int(rival.settings["num_epochs"])
    return samples_between_looks(description, rival.num_steps * _update(rival) if rival.num_steps else epoch * epochs)


def _refuse(description: JobDescription, metric: str) -> None:
    if not description.has_valid:
        raise UsageError("A target is met on validation data, and this job has none; give the Job valid_data")
    if metric == "score" and not description.has_score:
        raise UsageError("This job has no score; name a loss, as in --target loss=0.1, or give the Job a score")


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    plan: Path | str | None = None,
    seeds: int = 3,
    equal_time: bool = True,
    force: bool = False,
    run: Run | None = None,
) -> Foreseen:
    """Which runs would `prove` make? Makes none."""
    run = run or Run()
    address = address_of(job, options)
    planned = _read(plan, address, run, force=force)
    each = START_SECONDS + (planned.predicted_seconds or 0.0)
    known = planned.predicted_seconds is not None
    notes = ["Times are the plan's own forecast" if known else "The plan foretells no time: starting alone is counted"]
    notes.append("The job's own run takes as long as it does today, and so does the plan's longer run beside it")
    return Foreseen(
        job=address.text,
        machine=run.host.name,
        seconds=0.0,
        notes=notes,
        probes=[
            foreseen_probe("train the plan to its target in a fresh process", (seeds, seeds), each),
            foreseen_probe("train its rival in a fresh process", (seeds, seeds), START_SECONDS),
            foreseen_probe("train the plan for the rival's seconds", (0, seeds if equal_time else 0), START_SECONDS),
        ],
    )
