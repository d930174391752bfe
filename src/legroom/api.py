"""One function a command, nothing else to call: the command line calls only these."""

import datetime
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from legroom.advisors.combine import PlanAnswer, answer_of, combine
from legroom.advisors.estimate import advise_estimate, does_not_fit, estimates_of
from legroom.advisors.foresee import Foreseen, foresee_memory
from legroom.advisors.foresee_loading import foresee_loading as foresee_loading_probes
from legroom.advisors.foresee_speed import foresee_speed as foresee_speed_probes
from legroom.advisors.loading import LoadingAnswer, advise_loading
from legroom.advisors.loading_thesis import advise_loading_thesis
from legroom.advisors.machine import MachineAnswer, advise_machine
from legroom.advisors.memory import MemoryAnswer, advise_memory
from legroom.advisors.speed import SpeedAnswer, advise_speed
from legroom.advisors.thesis import advise_thesis
from legroom.advisors.train import TrainAnswer, advise_train
from legroom.advisors.vocabulary import CUTS, VocabularyAnswer, advise_vocabulary
from legroom.answers import Answer
from legroom.clock import monotonic
from legroom.engines.base import Engine
from legroom.engines.local import LocalEngine
from legroom.errors import DoesNotFit, UsageError
from legroom.job import PRECISIONS, Job, JobAddress, Settings, address_of
from legroom.logbook import FILE_NAME, Logbook, open_logbook, read_lines
from legroom.plan import read_plan, write_plan
from legroom.probes.gpus import read_gpus
from legroom.probes.largest_batch import find_largest_batch
from legroom.probes.largest_card_batch import find_largest_card_batch, read_budget
from legroom.probes.limits import read_limits
from legroom.probes.loading_question import check_words, loading_question
from legroom.probes.loading_search import find_loading
from legroom.probes.loading_thesis import measure_loading_thesis
from legroom.probes.place import HOST_SHARE, Place, choose_place
from legroom.probes.proofs import prove_accumulation
from legroom.probes.session import Progress, Session
from legroom.probes.speed_question import check_speed_words, speed_question
from legroom.probes.speed_search import measure_speed
from legroom.probes.thesis import measure_thesis
from legroom.probes.traced import trace_memory, trace_remedies
from legroom.records import (
    EXPANDABLE,
    QUIET_THREADS,
    STEADY_MALLOC,
    DeviceSpeed,
    JobDescription,
    LoadingQuestion,
    MeasureDevice,
    MemoryQuestion,
    RunStarted,
    Train,
    Trained,
)
from legroom.training.schedule_words import check_schedule
from legroom.workloads import Workload, list_workloads
from legroom.workloads.lines import number_lines
from legroom.workloads.reading import read_column
from legroom.workloads.vocabulary import TOKENS

if TYPE_CHECKING:
    from legroom.reports.page import Page

AnyJob = str | Callable[..., Job] | JobAddress
AnyAnswer = TypeVar("AnyAnswer", bound=Answer)

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
    with _memory_session("memory", address, run, place) as session:
        description = session.describe(run.seed)
        question = _memory_question(place, precision, description, run.seed)
        question = replace(question, num_devices=num_devices, effective_batch=effective_batch)
        if rule == "thesis":
            return _keep(session, _ask_thesis(session, question, description))
        return _keep(session, _ask_memory(session, question, description, place))


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
    with _session("loading", address, run, QUIET_THREADS) as session:
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
            return _keep(session, _ask_loading_thesis(session, question, description, batch_size))
        find_loading(session, question)
        session.progress("done", 1.0)
        return _keep(session, advise_loading(session.logbook, question))


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
    with _session("speed", address, run, _training_environment(place)) as session:
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
        return _keep(session, advise_speed(session.logbook, question, found.because, found.notes))


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
    choose_place(device, None, None)
    _, entries, _ = read_lines(out_folder(address, run or Run()) / FILE_NAME)
    return foresee_speed_probes(entries, job=address.text, machine=machine_name(), seconds=seconds)


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
    with _memory_session("plan", address, run, place) as session:
        description = session.describe(run.seed)
        question = replace(_memory_question(place, precision, description, run.seed), up_to_data=True)
        answer = _ask_memory(session, question, description, place)
        made = combine(address, answer)
        path = session.logbook.path.parent / "plan.toml"
        write_plan(made, path)
        _keep(session, answer)
        return _keep(session, answer_of(made, seconds=answer.seconds)), path


def train(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    plan: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    target: str | None = None,
    run: Run | None = None,
    **more: Any,
) -> TrainAnswer:
    """Train to the target or to the end, with the job's own settings, a plan's on top of them, then those given here.

    `more` are fields of `records.Train`, such as max_seconds, patience or compile.
    """
    run = run or Run()
    address = address_of(job, options)
    place = choose_place(device, None, None)
    given = {**(_planned(plan) if plan else {}), **(settings or {})}
    check_schedule(Settings(**given).schedule)  # what is wrong is told before anything is started
    aim = _parse_target(target) if target else None
    with _session("train", address, run, _training_environment(place)) as session:
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
        folder = str(session.logbook.path.parent.resolve())
        request = Train(
            fresh=False,
            device=place.device,
            settings=chosen,
            target=aim,
            folder=folder,
            resume=run.resume,
            identity=identity,
            **more,
        )
        trained = session.measure(request)
        assert isinstance(trained, Trained)
        return _keep(session, advise_train(session.logbook, description, request, trained))


def report(folder: Path) -> "tuple[Page, Path]":
    """Write report.html anew from what the folder holds, without measuring; returns what it shows and its path."""
    from legroom.reports.page import gather_page, write_page

    return gather_page(folder), write_page(folder)


def report_path(job: AnyJob, options: Mapping[str, str] | None = None, out: Path | None = None) -> Path:
    """Where the report on that job lies."""
    from legroom.reports.page import FILE_NAME as REPORT_NAME

    return out_folder(address_of(job, options), Run(out=out)) / REPORT_NAME


def _keep(session: Session, answer: AnyAnswer) -> AnyAnswer:
    """Save the answer beside the logbook and write the report anew: the last thing a question does."""
    # Imported here: rich alone costs 0.1 s, which every child and `import legroom` would pay.
    from legroom.reports.page import write_page
    from legroom.reports.saved import save_answer

    folder = session.logbook.path.parent
    try:
        save_answer(folder, answer)
        write_page(folder)
    except Exception as error:  # whatever is wrong with the page, the answer was paid for
        why = (str(error).splitlines() or [type(error).__name__])[0]
        return replace(answer, notes=[*answer.notes, f"The report could not be written into {folder}: {why}"])
    return answer


def _planned(path: Path) -> dict[str, Any]:
    """The settings that a plan names."""
    known = {item.name for item in fields(Settings)}
    return {item.name: item.value for item in read_plan(path).recommendations if item.name in known}


def _parse_target(text: str) -> tuple[Literal["loss", "score"], float]:
    name, _, word = text.partition("=")
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if name not in ("loss", "score") or not math.isfinite(value):
        raise UsageError(f"The target {text!r} cannot be read. Write score=0.97 or loss=0.1")
    return ("loss" if name == "loss" else "score"), value


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


def _ask_loading_thesis(
    session: Session, question: LoadingQuestion, description: JobDescription, largest_batch: int | None
) -> LoadingAnswer:
    limit = largest_batch or description.widest_batch or description.num_samples or question.batch_size
    notes = [] if largest_batch else [f"No largest batch was named, so the data set's {limit:,} samples stand for it"]
    question, ratios = measure_loading_thesis(session, question, description, limit)
    return advise_loading_thesis(session.logbook, question, ratios, notes)


def _session(command: str, address: JobAddress, run: Run, environment: Mapping[str, str]) -> Session:
    engine = run.engine or LocalEngine(
        silence_seconds=run.timeout, limit_bytes=int(HOST_SHARE * read_limits().available_bytes)
    )
    logbook = _logbook(command, address, run)
    return Session(address, engine, logbook, environment=environment, progress=run.progress)


def _memory_session(command: str, address: JobAddress, run: Run, place: Place) -> Session:
    """A session whose proof on a GPU finds its process ready: it starts with the first one."""
    on_gpu = place.device == "cuda" and place.is_here
    session = _session(command, address, run, EXPANDABLE if on_gpu else STEADY_MALLOC)
    if on_gpu and read_limits().num_cores >= 4:  # on fewer, a second process would only slow the first
        session.warm(EXPANDABLE)
    return session


def _training_environment(place: Place) -> Mapping[str, str]:
    return QUIET_THREADS if place.device == "cpu" else EXPANDABLE


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
