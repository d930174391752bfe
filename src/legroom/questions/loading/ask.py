"""`legroom loading`: how many workers, and is it the disk, the CPU or the device?"""

from collections.abc import Mapping

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.limits import HostLimits
from legroom.host.target import check_cuda, choose_target
from legroom.job_address import AnyJob, address_of
from legroom.questions.base import Foreseen, check_word
from legroom.questions.loading.advice import advise_loading
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.foresee import foresee_loading
from legroom.questions.loading.records import LoadingQuestion
from legroom.questions.loading.search import find_loading
from legroom.questions.loading.thesis import measure_loading_thesis
from legroom.questions.loading.thesis_advice import advise_loading_thesis
from legroom.requests import JobDescription
from legroom.session import Run, Session, earlier_entries, keep, open_session
from legroom.setting_rules import PRECISIONS
from legroom.units import format_bytes

RULES = ("legroom", "thesis")
PATIENCE_SHARE = 0.9
"""Of the time after which a silent job is ended: the child gives up first, and can say at which sample."""
MEMORY_SHARE = 0.9


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
    check_words(run.host, device, batch_size, num_devices, precision)
    check_word("rule", rule, RULES)
    target = choose_target(run.host, device)
    with open_session("loading", address, run) as session:
        description = session.describe(run.seed)
        question = loading_question(
            description,
            run.host.limits,
            device=target.device,
            batch_size=None if rule == "thesis" else batch_size,
            num_devices=num_devices,
            precision=precision,
            seed=run.seed,
            timeout=run.timeout,
        )
        if rule == "thesis":
            return keep(session, _ask_thesis(session, question, description, batch_size))
        find_loading(session, question)
        return keep(session, advise_loading(session.records, question))


def foresee(
    job: AnyJob = "digits", *, options: Mapping[str, str] | None = None, device: str = "auto", run: Run | None = None
) -> Foreseen:
    """Which probes would `loading` run, and how long should they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    check_words(run.host, device, None, 1, None)
    return foresee_loading(earlier_entries(address, run), job=address.text, machine=run.host.name)


def check_words(host: Host, device: str, batch_size: int | None, num_devices: int, precision: str | None) -> None:
    """Refuse what cannot be asked before the job is read."""
    for name, number in (("--batch-size", batch_size), ("--devices", num_devices)):
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}; it must be at least 1")
    if precision is not None:
        check_word("precision", precision, PRECISIONS)
    check_cuda(host, device)


def loading_question(
    description: JobDescription,
    limits: HostLimits,
    *,
    device: str,
    batch_size: int | None,
    num_devices: int,
    precision: str | None,
    seed: int,
    timeout: float,
) -> LoadingQuestion:
    """The question; a batch that the data or the host cannot give is refused."""
    size = batch_size or int(description.baseline["batch_size"])
    limit = description.widest_batch or description.num_samples
    if batch_size is not None and limit is not None and size > limit:
        raise UsageError(f"--batch-size {size:,} is more than the {limit:,} samples there are. Name at most that")
    needed = size * description.sample_bytes[1]
    if needed > MEMORY_SHARE * limits.available_bytes:
        raise UsageError(
            f"A batch of {size:,} takes {format_bytes(needed)}, and {format_bytes(limits.available_bytes)} of host "
            "memory are free. Name a smaller --batch-size"
        )
    return LoadingQuestion(
        device=device,
        batch_size=size if limit is None else min(size, limit),
        precision=precision or description.baseline["precision"],
        num_devices=num_devices,
        num_cores=limits.num_cores,
        available_bytes=int(MEMORY_SHARE * limits.available_bytes),
        shm_bytes=limits.shm_bytes,
        seed=seed,
        patience_seconds=PATIENCE_SHARE * timeout,
    )


def _ask_thesis(
    session: Session, question: LoadingQuestion, description: JobDescription, largest_batch: int | None
) -> LoadingAnswer:
    limit = largest_batch or question.batch_size
    assumed = f"No largest batch was named, so the job's own {limit:,} stands for it; legroom memory finds it"
    notes = [] if largest_batch else [assumed]
    question, ratios = measure_loading_thesis(session, question, description, limit)
    return advise_loading_thesis(session.records, question, ratios, limit, notes)
