"""One function a command, nothing else to call: the command line calls only these."""

import datetime
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from legroom.advisors.combine import PlanAnswer, answer_of, combine
from legroom.advisors.estimate import advise_estimate, does_not_fit, estimates_of
from legroom.advisors.foresee import Foreseen, foresee_memory
from legroom.advisors.machine import MachineAnswer, advise_machine
from legroom.advisors.memory import MemoryAnswer, advise_memory
from legroom.advisors.thesis import advise_thesis
from legroom.clock import monotonic
from legroom.engines.base import Engine
from legroom.engines.local import LocalEngine
from legroom.errors import DoesNotFit, UsageError
from legroom.job import PRECISIONS, Job, JobAddress, address_of
from legroom.logbook import FILE_NAME, Logbook, open_logbook, read_lines
from legroom.plan import write_plan
from legroom.probes.gpus import read_gpus
from legroom.probes.largest_batch import find_largest_batch
from legroom.probes.largest_card_batch import find_largest_card_batch, read_budget
from legroom.probes.limits import read_limits
from legroom.probes.place import HOST_SHARE, Place, choose_place
from legroom.probes.proofs import prove_accumulation
from legroom.probes.session import Progress, Session
from legroom.probes.thesis import measure_thesis
from legroom.probes.traced import trace_memory, trace_remedies
from legroom.records import (
    EXPANDABLE,
    STEADY_MALLOC,
    DeviceSpeed,
    JobDescription,
    MeasureDevice,
    MemoryQuestion,
    RunStarted,
)
from legroom.workloads import Workload, list_workloads

AnyJob = str | Callable[..., Job] | JobAddress

RULES = ("legroom", "thesis")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a question is asked: where records go, what may be used again, who is told of progress."""

    out: Path | None = None
    """Folder of logbook, plan and report; legroom-out/<job> where absent."""
    resume: bool = False
    """Use what an earlier run in that folder measured."""
    seed: int = 0
    timeout: float = 300.0
    """Seconds a job may do nothing before it counts as hung."""
    progress: Progress = lambda message, share: None
    engine: Engine | None = None
    """Where workers run; processes of this machine where absent."""


def jobs() -> list[Workload]:
    """The built-in jobs with their options."""
    return list_workloads()


def machine(*, device: str = "auto", run: Run | None = None) -> MachineAnswer:
    """What this machine has: cores, memory, GPUs, and how fast they are."""
    run = run or Run()
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
    with _session("memory", address, run, place) as session:
        description = session.describe(run.seed)
        question = _memory_question(place, precision, description, run.seed)
        question = replace(question, num_devices=num_devices, effective_batch=effective_batch)
        if rule == "thesis":
            return _ask_thesis(session, question, description)
        return _ask_memory(session, question, description, place)


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


def plan(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    card: str | None = None,
    precision: str | None = None,
    run: Run | None = None,
) -> tuple[PlanAnswer, Path]:
    """What should I run? Asks every question there is and writes plan.toml; returns the answer and that file's path."""
    run = run or Run()
    address = address_of(job, options)
    place = choose_place(device, memory, card)
    with _session("plan", address, run, place) as session:
        description = session.describe(run.seed)
        question = replace(_memory_question(place, precision, description, run.seed), up_to_data=True)
        answer = _ask_memory(session, question, description, place)
        made = combine(address, answer)
        path = session.logbook.path.parent / "plan.toml"
        write_plan(made, path)
    return answer_of(made, seconds=answer.seconds), path


def machine_name() -> str:
    """This machine in a few words, the same each time it is asked."""
    limits, (gpus, _) = read_limits(), read_gpus()
    names = ", ".join(gpu.name for gpu in gpus) or "no GPU"
    return f"{platform.system()} {platform.machine()}, {limits.num_cores} cores, {names}"


def out_folder(address: JobAddress, run: Run) -> Path:
    """Where records of that job go."""
    return run.out or Path("legroom-out") / address.name


def _memory_question(place: Place, precision: str | None, description: JobDescription, seed: int) -> MemoryQuestion:
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(f"There is no precision {precision!r}. Known: {', '.join(PRECISIONS)}")
    return MemoryQuestion(
        device=place.device,
        budget_bytes=place.budget_bytes,
        precision=precision or description.baseline["precision"],
        up_to_data=not place.is_named,
        seed=seed,
        card=place.card,
    )


def _ask_memory(session: Session, question: MemoryQuestion, description: JobDescription, place: Place) -> MemoryAnswer:
    if question.effective_batch is not None and description.own_step:
        raise UsageError("This job has its own step, so legroom cannot accumulate for it; leave --effective-batch out")
    if not place.is_here:
        trace_memory(session, question, description)
        session.progress("done", 1.0)
        return advise_estimate(session.logbook, question)
    if question.device == "cpu":
        find_largest_batch(session, question, description)
    else:
        question = read_budget(session, question, description)
        _find_on_card(session, question, description)
    if question.effective_batch is not None:
        largest = advise_memory(session.logbook, replace(question, effective_batch=None)).max_batch_size
        prove_accumulation(session, question, largest)
    session.progress("done", 1.0)
    return advise_memory(session.logbook, question)


def _find_on_card(session: Session, question: MemoryQuestion, description: JobDescription) -> None:
    """The search; where nothing fits, a trace tells what would."""
    try:
        find_largest_card_batch(session, question, description)
    except DoesNotFit:
        trace_remedies(session, question)
        raise does_not_fit(estimates_of(session.logbook.entries), question) from None


def _ask_thesis(session: Session, question: MemoryQuestion, description: JobDescription) -> MemoryAnswer:
    question = read_budget(session, question, description)
    measure_thesis(session, question)
    return advise_thesis(session.logbook, question)


def _session(command: str, address: JobAddress, run: Run, place: Place) -> Session:
    engine = run.engine or LocalEngine(
        silence_seconds=run.timeout, limit_bytes=int(HOST_SHARE * read_limits().available_bytes)
    )
    environment = EXPANDABLE if place.device == "cuda" and place.is_here else STEADY_MALLOC
    logbook = _logbook(command, address, run)
    session = Session(address, engine, logbook, environment=environment, progress=run.progress)
    if environment is EXPANDABLE and read_limits().num_cores >= 4:  # on fewer, a second process would slow the first
        session.warm(EXPANDABLE)
    return session


def _logbook(command: str, address: JobAddress, run: Run) -> Logbook:
    from legroom import __version__

    head = RunStarted(
        run="",
        job=address.text,
        options=address.options,
        digest=address.digest,
        machine=machine_name(),
        command=command,
        legroom_version=__version__,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    folder = out_folder(address, run)
    logbook = open_logbook(folder, head, resume=run.resume)
    if run.out is None:
        (folder.parent / ".gitignore").write_text("*\n")  # our own folder: nobody means to commit it
    return logbook
