"""One function a command, and `Run` for how to ask; nothing else to call: the command line calls only these."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from legroom.advisors.combine import PlanAnswer, answer_of
from legroom.advisors.foresee import Foreseen, foresee_memory
from legroom.advisors.foresee_loading import foresee_loading as foresee_loading_probes
from legroom.advisors.foresee_speed import foresee_speed as foresee_speed_probes
from legroom.advisors.loading import LoadingAnswer, advise_loading
from legroom.advisors.machine import MachineAnswer, advise_machine
from legroom.advisors.memory import MemoryAnswer
from legroom.advisors.speed import SpeedAnswer, advise_speed
from legroom.advisors.train import TrainAnswer, advise_train
from legroom.advisors.vocabulary import CUTS, VocabularyAnswer, advise_vocabulary
from legroom.asking import ask_loading_thesis, ask_memory, ask_plan, ask_thesis, memory_question
from legroom.claims import Claim
from legroom.clock import monotonic
from legroom.engines.local import LocalEngine
from legroom.errors import UsageError
from legroom.job import Job, JobAddress, Settings, address_of
from legroom.logbook import FILE_NAME, read_lines
from legroom.plan import Plan
from legroom.plan_file import read_plan, write_plan
from legroom.probes.gpus import read_gpus
from legroom.probes.limits import read_limits
from legroom.probes.loading_question import check_words, loading_question
from legroom.probes.loading_search import find_loading
from legroom.probes.place import check_device, choose_place
from legroom.probes.speed_question import check_speed_words, speed_question
from legroom.probes.speed_search import measure_speed
from legroom.records import (
    UNCHANGED,
    DeviceSpeed,
    MeasureDevice,
    Train,
    Trained,
)
from legroom.records.environments import allocator_environment, check_allocator, read_environment
from legroom.records.training import CHECKPOINT_NAME
from legroom.running import Run, keep, machine_name, open_memory_session, open_session, out_folder
from legroom.setting_rules import lacks_to_train
from legroom.train_words import check_train_words
from legroom.training.schedule_words import check_schedule
from legroom.workloads import Workload, list_workloads
from legroom.workloads.lines import number_lines
from legroom.workloads.reading import read_column
from legroom.workloads.vocabulary import TOKENS

if TYPE_CHECKING:
    from legroom.reports.page import Page

__all__ = [
    "Run",
    "foresee",
    "foresee_loading",
    "foresee_speed",
    "jobs",
    "loading",
    "machine",
    "memory",
    "plan",
    "report",
    "report_path",
    "speed",
    "train",
    "vocabulary",
]

AnyJob = str | Callable[..., Job] | JobAddress

RULES = ("legroom", "thesis")


def jobs(data: Path | str | None = None) -> list[Workload]:
    """The built-in jobs with their options, parameters and data, which is looked for in `data` or LEGROOM_DATA."""
    return list_workloads(str(data or ""))


def vocabulary(
    file: Path | str,
    *,
    by: str = "min-frequency",
    column: int = 0,
    tokens: str = "words",
    max_length: int = 100,
    num_cells: int = 128,
    batch_size: int = 512,
) -> VocabularyAnswer:
    """How large is a text's vocabulary by threshold or merges, and what does its output layer cost?"""
    for name, word, known in (("--by", by, (*CUTS, "merges")), ("--tokens", tokens, TOKENS)):
        if word not in known:
            raise UsageError(f"{name} is {word!r}. Known: {', '.join(known)}")
    started = monotonic()
    answer = advise_vocabulary(
        number_lines(read_column(Path(file), column), tokens),  # type: ignore[arg-type]
        by=by,  # type: ignore[arg-type]
        max_length=max_length,
        num_cells=num_cells,
        batch_size=batch_size,
        file=str(file),
        machine=machine_name(),
    )
    return replace(answer, seconds=monotonic() - started)


def machine(*, device: str = "auto", run: Run | None = None) -> MachineAnswer:
    """What this machine has: cores, memory, GPUs, and how fast they are."""
    run = run or Run()
    check_device(device)
    limits, (gpus, why_none) = read_limits(), read_gpus()
    places = ["cpu"] if device == "cpu" or not gpus else ["cpu", "cuda"]
    started = monotonic()
    worker = (run.engine or LocalEngine(silence_seconds=run.timeout)).start(JobAddress(text=""), {})  # needs no job
    try:
        speeds = {}
        for share, place in enumerate(places):
            run.progress(f"measuring {place}", share / len(places))
            result = worker.ask(MeasureDevice(device=place))
            assert isinstance(result, DeviceSpeed)
            speeds[place] = dict(result.values)
    finally:
        worker.close()
    return advise_machine(limits, gpus, why_none, speeds, machine=machine_name(), seconds=monotonic() - started)


def memory(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    precision: str | None = None,
    effective_batch: int | None = None,
    num_devices: int = 1,
    rule: str = "legroom",
    run: Run | None = None,
) -> MemoryAnswer:
    """How large a batch fits? Proved in a fresh process; estimated for a GPU that is not here."""
    run = run or Run()
    address = address_of(job, options)
    for name, number in (("--effective-batch", effective_batch), ("--devices", num_devices)):
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1")
    if rule not in RULES:
        raise UsageError(f"There is no rule {rule!r}. Known: {', '.join(RULES)}")
    place = choose_place(device, memory, card)
    if num_devices > 1 and place.device == "cpu":
        raise UsageError("--devices is about GPUs that train together; add --device cuda or --card")
    if rule == "thesis" and (place.device == "cpu" or not place.is_here):
        raise UsageError("--rule thesis reads what torch reserved on a GPU, and there is none here; use --rule legroom")
    with open_memory_session("memory", address, run, place) as session:
        description = session.describe(run.seed)
        question = memory_question(place, precision, description, run.seed)
        question = replace(question, num_devices=num_devices, effective_batch=effective_batch)
        if rule == "thesis":
            answer = ask_thesis(session, question, description)
        else:
            answer = ask_memory(session, question, description, place)
        answer = replace(answer, budget_named=place.is_named, effective_batch=effective_batch, rule=rule)
        return keep(session, answer)


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `memory` and `plan` run, and how long should they take? Runs none."""
    address = address_of(job, options)
    place = choose_place(device, memory, card)
    _, entries, _ = read_lines(out_folder(address, run or Run()) / FILE_NAME)
    return foresee_memory(entries, job=address.text, machine=machine_name(), is_here=place.is_here)


def loading(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    num_devices: int = 1,
    precision: str | None = None,
    rule: str = "legroom",
    run: Run | None = None,
) -> LoadingAnswer:
    """How many workers? Is it the disk, the CPU or the device? Every setting was run together with the step."""
    run = run or Run()
    address = address_of(job, options)
    check_words(device, batch_size, num_devices, precision)
    if rule not in RULES:
        raise UsageError(f"There is no rule {rule!r}. Known: {', '.join(RULES)}")
    place = choose_place(device, None, None)
    with open_session("loading", address, run, UNCHANGED) as session:
        description = session.describe(run.seed)
        question = loading_question(
            description,
            read_limits(),
            device=place.device,
            batch_size=None if rule == "thesis" else batch_size,
            num_devices=num_devices,
            precision=precision,
            seed=run.seed,
            timeout=run.timeout,
        )
        if rule == "thesis":
            return keep(session, ask_loading_thesis(session, question, description, batch_size))
        find_loading(session, question)
        session.progress("done", 1.0)
        return keep(session, advise_loading(session.logbook, question))


def foresee_loading(
    job: AnyJob = "digits", *, options: Mapping[str, str] | None = None, device: str = "auto", run: Run | None = None
) -> Foreseen:
    """Which probes would `loading` run, and how long should they take? Runs none."""
    address = address_of(job, options)
    check_words(device, None, 1, None)
    _, entries, _ = read_lines(out_folder(address, run or Run()) / FILE_NAME)
    return foresee_loading_probes(entries, job=address.text, machine=machine_name())


def speed(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    batch_sizes: Sequence[int] = (),
    rule: str = "throughput",
    share: float = 0.9,
    seconds: float = 15.0,
    precision: str | None = None,
    run: Run | None = None,
) -> SpeedAnswer:
    """Where does a larger batch stop paying? Sizes timed in rounds, a law through four, the knee."""
    run = run or Run()
    address = address_of(job, options)
    check_speed_words(
        device=device, batch_sizes=batch_sizes, rule=rule, share=share, seconds=seconds, precision=precision
    )
    place = choose_place(device, None, None)
    with open_session("speed", address, run, UNCHANGED) as session:
        description = session.describe(run.seed)
        question = speed_question(
            description,
            precision=precision,
            device=place.device,
            batch_sizes=tuple(batch_sizes),
            rule=rule,
            share=share,
            seconds=seconds,
            seed=run.seed,
        )
        found = measure_speed(session, question, description)
        session.progress("done", 1.0)
        return keep(session, advise_speed(session.logbook, question, found.because, found.notes))


def foresee_speed(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    seconds: float = 15.0,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `speed` run, and how long should they take? Runs none."""
    address = address_of(job, options)
    place = choose_place(device, None, None)
    _, entries, _ = read_lines(out_folder(address, run or Run()) / FILE_NAME)
    return foresee_speed_probes(entries, job=address.text, machine=machine_name(), device=place.device, seconds=seconds)


def plan(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    precision: str | None = None,
    run: Run | None = None,
) -> PlanAnswer:
    """What should I run? Takes the answers in the folder, proves that the batch fits, and writes plan.toml."""
    run = run or Run()
    address = address_of(job, options)
    place = choose_place(device, memory, card)
    with open_memory_session("plan", address, run, place) as session:
        description = session.describe(run.seed)
        question = replace(memory_question(place, precision, description, run.seed), up_to_data=True)
        made = ask_plan(session, question, description, place)
        path = session.logbook.path.parent / "plan.toml"
        write_plan(made, path)
        return keep(session, answer_of(made, seconds=session.logbook.seconds(), path=str(path)))


def train(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    plan: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    target: str | None = None,
    num_steps: int | None = None,
    max_seconds: float | None = None,
    evaluate_steps: int | None = None,
    patience: int | None = None,
    watch: str = "loss",
    tolerance: float = 0.0,
    checkpoint_seconds: float = 60.0,
    checkpoint_steps: int | None = None,
    tensorboard: bool = False,
    allocator: str | None = None,
    compile: bool = False,
    channels_last: bool = False,
    fused: bool = False,
    run: Run | None = None,
    **named: Any,
) -> TrainAnswer:
    """Train to the target or to the end, with the job's own settings, a plan's on top of them, then those given here.

    Any field of legroom.Settings may be given by name, as in train(job, batch_size=64, num_epochs=3);
    `settings` takes the same as a mapping.
    target: "score=0.97" or "loss=0.1" on the validation data; reaching it ends the run.
    num_steps: length in updates, instead of epochs. max_seconds: budget of training and evaluating.
    evaluate_steps: updates between evaluations; one an epoch where absent.
    patience: evaluations without gain that end the run; watch: "loss" or "score"; tolerance: share it must gain by.
    checkpoint_seconds, checkpoint_steps: how often to save. tensorboard: write its files too.
    allocator: "expandable" or "default", on a GPU. compile, channels_last, fused: what makes steps faster.
    run: where files go, and whether to resume: Run(out=..., resume=True).
    """
    more: dict[str, Any] = {
        "num_steps": num_steps,
        "max_seconds": max_seconds,
        "evaluate_steps": evaluate_steps,
        "patience": patience,
        "watch": watch,
        "tolerance": tolerance,
        "checkpoint_seconds": checkpoint_seconds,
        "checkpoint_steps": checkpoint_steps,
        "tensorboard": tensorboard,
        "allocator": allocator,
        "compile": compile,
        "channels_last": channels_last,
        "fused": fused,
    }
    settings = {**(settings or {}), **named}
    check_train_words(settings, more)
    run = run or Run()
    address = address_of(job, options)
    place = choose_place(device, None, None)
    planned = _plan_for(address, Path(plan)) if plan else None
    given = {**(_settings_of(planned) if planned else {}), **settings}
    check_schedule(Settings(**given).schedule)  # what is wrong is told before anything is started
    if wanted := lacks_to_train("num_devices", given.get("num_devices", 1)):
        raise UsageError(f"num_devices is {given['num_devices']}; it must be {wanted}")
    aim = _parse_target(target) if target else None
    more["allocator"] = more.get("allocator") or (planned.value("allocator") if planned else None)
    if more["allocator"] is not None:
        check_allocator(more["allocator"], "--allocator")
    variables = planned.value("environment") if planned else None
    more["variables"] = read_environment(variables, "The plan's environment") if variables else {}
    environment = {**allocator_environment(place.device, more["allocator"]), **more["variables"]}
    with open_session("train", address, run, environment) as session:
        description = session.describe(run.seed)
        chosen = asdict(Settings(**{**description.baseline, "seed": run.seed, **given}))
        check_schedule(chosen["schedule"])
        identity = {
            "job": address.text,
            "options": dict(address.options),
            "job's file": address.digest,
            "settings": chosen,
            "length": more.get("num_steps"),
        }
        folder = session.logbook.path.parent.resolve()
        if run.resume and not (folder / CHECKPOINT_NAME).is_file():
            run.tell(f"There is no checkpoint in {folder} to go on from, so the run begins anew")
        request = Train(
            fresh=False,
            device=place.device,
            settings=chosen,
            target=aim,
            folder=str(folder),
            resume=run.resume,
            identity=identity,
            **more,
        )
        trained = session.measure(request)
        assert isinstance(trained, Trained)
        return keep(session, advise_train(session.logbook, description, request, trained))


def report(folder: Path) -> "tuple[Page, Path]":
    """Write report.html anew from what the folder holds, without measuring; returns what it shows and its path."""
    from legroom.reports.page import gather_page, write_page

    page = gather_page(folder)  # first: a folder that holds no answer gets no lock either
    with Claim(folder):
        return page, write_page(folder)


def report_path(job: AnyJob, options: Mapping[str, str] | None = None, out: Path | None = None) -> Path:
    """Where the report on that job lies."""
    from legroom.reports.page import FILE_NAME as REPORT_NAME

    return out_folder(address_of(job, options), Run(out=out)) / REPORT_NAME


def _plan_for(address: JobAddress, path: Path) -> Plan:
    """The plan in the file, refused where it is another job's; the same file in another folder is the same job."""
    plan = read_plan(path)
    made_for = JobAddress(text=plan.job, options={name: str(value) for name, value in plan.options.items()})
    if plan.job and not address.is_like(made_for):
        raise UsageError(
            f"{path} is a plan for {made_for.words}, and this run is of {address.words}. "
            "Name the plan's job and options, or change them in the plan"
        )
    return plan


def _settings_of(plan: Plan) -> dict[str, Any]:
    """The settings that a plan names."""
    known = {item.name for item in fields(Settings)}
    return {item.name: item.value for item in plan.recommendations if item.name in known}


def _parse_target(text: str) -> tuple[Literal["loss", "score"], float]:
    name, _, word = text.partition("=")
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if name not in ("loss", "score") or not math.isfinite(value):
        raise UsageError(f"The target {text!r} cannot be read. Write score=0.97 or loss=0.1")
    return ("loss" if name == "loss" else "score"), value
