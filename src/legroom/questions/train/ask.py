"""`legroom train`: run the job to its target."""

import difflib
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from legroom.environments import Environment, allocator_environment, check_allocator
from legroom.errors import UsageError
from legroom.host.target import check_cuda, choose_target
from legroom.job import FASTER, Settings
from legroom.job_address import AnyJob, JobAddress, address_of, out_folder
from legroom.plan_file import Plan
from legroom.plan_use import plan_for, settings_of, variables_of
from legroom.questions.base import read_target
from legroom.questions.train.advice import advise
from legroom.questions.train.answer import TrainAnswer
from legroom.questions.train.until_target import check_until_target, prepare_until_target
from legroom.questions.train.update import UpdateWords, settle_update
from legroom.requests import JobDescription
from legroom.session import Run, Session, keep, open_session
from legroom.setting_rules import check_workers
from legroom.training.records import CHECKPOINT_NAME, Several, Train
from legroom.training.schedule_text import check_schedule
from legroom.training.several import refuse_unshared, refuse_without_effect, several_devices

MADE = (
    *("kind", "fresh", "anew", "settings", "target", "folder", "resume", "identity", "device", "variables", "several"),
    *("notes", "again"),
)
"""Fields of a Train that are made of other words."""
WORDS = [field.name for field in fields(Train) if field.name not in MADE]
SEVERAL_WORDS = [field.name for field in fields(Several) if field.name not in ("num_local", "wait_seconds")]
NODE_NAME = "node-"
"""Of the folder of a machine that shares a disk with another that writes already; its host and process follow."""
RUN_WORDS = ("out", "resume", "timeout", "progress", "engine", "together")


def train(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    plan: Path | str | None = None,
    force: bool = False,
    settings: Mapping[str, Any] | None = None,
    target: str | None = None,
    num_steps: int | None = None,
    max_seconds: float | None = None,
    evaluate_steps: int | None = None,
    until_target: bool = False,
    patience: int | None = None,
    watch: str = "loss",
    tolerance: float = 0.0,
    checkpoint_seconds: float = 60.0,
    checkpoint_steps: int | None = None,
    tensorboard: bool = False,
    allocator: str | None = None,
    effective_batch: int | None = None,
    rate_rule: str | None = None,
    nodes: int = 1,
    rendezvous: str = "",
    restarts: int = 0,
    sync_batch_norm: bool = False,
    find_unused_parameters: bool = False,
    shard: bool = False,
    run: Run | None = None,
    **named: Any,
) -> TrainAnswer:
    """Train to the target or to the end, with the job's own settings, a plan's on top of them, then those given here.

    Any field of legroom.Settings may be given by name, as in train(job, batch_size=64, num_epochs=3);
    `settings` takes the same as a mapping.
    force: use a plan of another job or machine. target: "score=0.97" or "loss=0.1" on the validation data; reaching
    it ends the run.
    num_steps: length in updates, instead of epochs. max_seconds: budget of training and evaluating.
    evaluate_steps: updates between evaluations; one an epoch where absent.
    until_target: train at a constant rate and cool down when that reaches the target.
    patience: evaluations without gain that end the run; watch: "loss" or "score"; tolerance: share it must gain by.
    checkpoint_seconds, checkpoint_steps: how often to save. tensorboard: write its files too.
    allocator: "expandable" or "default", on a GPU.
    num_devices, of the settings: devices of all `nodes` machines together, which meet at `rendezvous` ("host:port").
    effective_batch: samples of an update, over all devices. rate_rule: how the rate follows an update that grows.
    restarts: how often to go on from the checkpoint after a process has failed. sync_batch_norm,
    find_unused_parameters, shard: as torch has them.
    run: where files go, and whether to resume: Run(out=..., resume=True).
    """
    words = dict(locals())  # all of them by name, before anything else has one
    run, settings = run or Run(), {**(settings or {}), **named}
    more = {name: words[name] for name in WORDS}
    update = UpdateWords(effective_batch, rate_rule)
    _check_words(settings, more)
    update.check(settings)
    address = address_of(job, options)
    check_cuda(run.host, device)
    more["device"] = choose_target(run.host, device).device
    planned = plan_for(Path(plan), address, run.host.name, force=force, tell=run.tell) if plan else None
    of_plan = settings_of(planned) if planned else {}
    given = {**of_plan, **settings}
    is_long = num_steps is not None or "num_epochs" in settings
    if planned and not is_long:
        more["num_steps"] = planned.value("num_steps")
    asked = Settings(**given)  # what is wrong is told before anything is started
    check_schedule(asked.schedule)
    check_workers(asked.num_workers, run.host.limits.num_cores)
    several = {name: words[name] for name in SEVERAL_WORDS}
    refuse_without_effect(settings, asked.num_devices, several)
    more["several"] = several_devices(run.host, more["device"], given, run.timeout, **several)
    more["target"] = read_target(target) if target else None
    if until_target:
        check_until_target(more)
    environment = _choose_environment(more, planned)
    # One child is all there will be: a process to fork it from would only take memory.
    with _open(address, run, environment, nodes) as session:
        chosen, more["notes"] = _settings(session.describe(run.seed), run, of_plan, settings, update)
        request = _request(session, run, chosen, more, is_long=is_long)
        session.note(request)
        session.measure(request)
        return keep(session, advise(session.records, request))


def _check_words(settings: Mapping[str, Any], words: Mapping[str, Any]) -> None:
    """Refuse settings that there are not, and lengths that make no sense."""
    known = [field.name for field in fields(Settings)]
    for name in settings:
        if name in RUN_WORDS:
            raise UsageError(f"train has no word {name!r} of its own. Write run=legroom.Run({name}=...)")
        if name not in known:
            close = difflib.get_close_matches(name, [*known, *WORDS, "job", "options", "plan", "run"])
            raise UsageError(
                f"train has no word {name!r}. Close to it: {', '.join(close) or 'none'}. "
                f"Settings are {', '.join(known)}; others: {', '.join(WORDS)}"
            )
    for name in ("num_steps", "evaluate_steps", "patience", "checkpoint_steps"):
        if words[name] is not None and (type(words[name]) is not int or words[name] < 1):
            raise UsageError(f"{name} is {words[name]!r}; it must be a whole number of at least 1")
    for name, least in (("max_seconds", 0.1), ("tolerance", 0.0), ("checkpoint_seconds", 0.0)):
        if words[name] is not None and not (isinstance(words[name], int | float) and words[name] >= least):
            raise UsageError(f"{name} is {words[name]!r}; it must be a number of at least {least:g}")
    if words["watch"] not in ("loss", "score"):
        raise UsageError(f"watch is {words['watch']!r}; it must be 'loss' or 'score'")


def _settings(
    description: JobDescription,
    run: Run,
    of_plan: Mapping[str, Any],
    named: Mapping[str, Any],
    update: UpdateWords,
) -> tuple[dict[str, Any], list[str]]:
    """All settings of the run, and what to say of them. A job may say that it runs on several devices; here it does so
    where asked to."""
    chosen = asdict(Settings(**{**description.baseline, "num_devices": 1, "seed": run.seed, **of_plan, **named}))
    notes = settle_update(chosen, description.baseline, of_plan, named, update)
    check_schedule(chosen["schedule"])
    check_workers(chosen["num_workers"], run.host.limits.num_cores)  # the job's own, where nobody named others
    return chosen, notes


def _open(address: JobAddress, run: Run, environment: Environment, nodes: int) -> Session:
    """The session. Of machines that share a disk one has the folder, and the others keep their records within it."""
    try:
        return open_session("train", address, run, environment, alone=True)
    except UsageError:
        if nodes == 1:
            raise
    beside = out_folder(address, run.out) / f"{NODE_NAME}{socket.gethostname()}-{os.getpid()}"
    return open_session("train", address, replace(run, out=beside), environment, alone=True)


def _choose_environment(more: dict[str, Any], planned: Plan | None) -> Environment:
    """What the plan or the user's words change of the environment, noted among the words."""
    more["allocator"] = more["allocator"] or (planned.value("allocator") if planned else None)
    if more["allocator"] is not None:
        check_allocator(more["allocator"], "--allocator")
    more["variables"] = variables_of(planned) if planned else {}
    return {**allocator_environment(more["device"], more["allocator"]), **more["variables"]}


def _request(session: Session, run: Run, settings: dict[str, Any], more: dict[str, Any], *, is_long: bool) -> Train:
    """The run to ask for, with all that a checkpoint to resume from must agree with."""
    folder, address, description = session.logbook.path.parent.resolve(), session.address, session.records.description()
    if folder.name.startswith(NODE_NAME):
        folder = folder.parent
    if more["until_target"]:
        prepare_until_target(settings, more, description, is_long=is_long)
    if run.resume and not (folder / CHECKPOINT_NAME).is_file():
        run.tell(f"There is no checkpoint in {folder} to go on from, so the run begins anew")
    identity = {
        "job": address.text,
        "options": dict(address.options),
        "job's file": address.digest,
        "settings": {name: value for name, value in settings.items() if name not in FASTER and value != ""},
        "length": more["num_steps"],
        "cooldowns for": more["target"] if more["until_target"] else None,
    }
    request = Train(fresh=False, settings=settings, folder=str(folder), resume=run.resume, identity=identity, **more)
    if request.several:
        refuse_unshared(description, request)
    return request
