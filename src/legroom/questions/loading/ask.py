"""`legroom loading`: how many workers, and is it the disk, the CPU or the device?"""

from collections.abc import Mapping

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.target import check_cuda, choose_target
from legroom.job_address import AnyJob, address_of
from legroom.laws.loading import MOST_WORKERS
from legroom.logbook import Entry
from legroom.questions.base import START_SECONDS, Foreseen, check_counts, check_precision, check_word, foreseen_probe
from legroom.questions.loading.advice import advise
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.loading.records import CompareLoaders, LoadingQuestion, ReadCold
from legroom.questions.loading.search import find_loading
from legroom.questions.loading.thesis import measure_thesis
from legroom.requests import Describe, JobDescription
from legroom.session import Run, earlier_entries, keep, open_session
from legroom.setting_rules import most_workers
from legroom.units import format_bytes

RULES = ("legroom", "thesis")
PATIENCE_SHARE = 0.9
"""Of the time after which a silent job is ended: the child gives up first, and can say at which sample."""
MEMORY_SHARE = 0.9
PROBES = (
    ("step", "the step alone, on a few batches", (1, 1), 1.5),
    ("load", "the loader alone with 0, 1 and as many workers as cores", (1, 1), 2.5),
    ("together", "loaders compared with each other together with the step", (1, 7), 4.0),
    ("together", "more of these where more workers collapse or cannot run", (0, 6), 4.0),
    ("cold", "cold storage: the same batches with files in the page cache and dropped from it", (1, 1), 2.0),
)
"""What each is, how many there are, and the seconds of one where no earlier record tells."""


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
    _check_words(run.host, device, batch_size, num_devices, precision)
    check_word("rule", rule, RULES)
    target = choose_target(run.host, device)
    with open_session("loading", address, run) as session:
        description = session.describe(run.seed)
        question = _question(
            description,
            run,
            device=target.device,
            batch_size=batch_size,
            num_devices=num_devices,
            precision=precision,
            rule=rule,
        )
        session.note(question)
        measure = measure_thesis if rule == "thesis" else find_loading
        measure(session, question)
        return keep(session, advise(session.records, question))


def foresee(
    job: AnyJob = "digits", *, options: Mapping[str, str] | None = None, device: str = "auto", run: Run | None = None
) -> Foreseen:
    """Which probes would `loading` run, and how long should they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    _check_words(run.host, device, None, 1, None)
    entries = earlier_entries(address, run)
    known = {what: [entry.seconds for entry in entries if _what(entry) == what] for what, *_ in PROBES}
    read = [entry.seconds for entry in entries if isinstance(entry.request, Describe)]
    probes = [foreseen_probe("read the job in a child process", (1, 1), max(read, default=START_SECONDS))]
    probes += [foreseen_probe(words, nums, max(known[what], default=guess)) for what, words, nums, guess in PROBES]
    source = "earlier records of this job" if any(known.values()) else "a small job on two cores; slow data take longer"
    notes = [f"Times are those of {source}"]
    return Foreseen(job=address.text, machine=run.host.name, seconds=0.0, notes=notes, probes=probes)


def _what(entry: Entry) -> str:
    """Which of the probes an entry is of."""
    request = entry.request
    return "cold" if isinstance(request, ReadCold) else request.what if isinstance(request, CompareLoaders) else ""


def _check_words(host: Host, device: str, batch_size: int | None, num_devices: int, precision: str | None) -> None:
    """Refuse what cannot be asked before the job is read."""
    check_counts({"--batch-size": batch_size, "--devices": num_devices})
    check_precision(precision)
    check_cuda(host, device)


def _question(
    description: JobDescription,
    run: Run,
    *,
    device: str,
    batch_size: int | None,
    num_devices: int,
    precision: str | None,
    rule: str,
) -> LoadingQuestion:
    """The question; a batch that the data or the host cannot give is refused. The thesis' rule takes its largest."""
    limits = run.host.limits
    named = None if rule == "thesis" else batch_size
    size = named or int(description.baseline["batch_size"])
    limit = description.data_limit
    if named is not None and limit is not None and size > limit:
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
        most_workers=min(MOST_WORKERS, most_workers(limits.num_cores)),
        rule=rule,
        largest_batch=batch_size if rule == "thesis" else None,
        seed=run.seed,
        patience_seconds=PATIENCE_SHARE * run.timeout,
    )
