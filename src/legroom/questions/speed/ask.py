"""`legroom speed`: where does a larger batch stop paying?"""

from collections.abc import Mapping, Sequence

from legroom.errors import UsageError
from legroom.host import Host
from legroom.host.target import check_cuda, choose_target
from legroom.job_address import AnyJob, address_of
from legroom.laws.memory import LARGEST_BATCH
from legroom.questions.base import Foreseen, check_word
from legroom.questions.speed.advice import advise_speed
from legroom.questions.speed.answer import SpeedAnswer
from legroom.questions.speed.foresee import foresee_speed
from legroom.questions.speed.records import SpeedQuestion
from legroom.questions.speed.search import measure_speed
from legroom.session import Run, earlier_entries, keep, open_session
from legroom.setting_rules import PRECISIONS

RULES = ("throughput", "utilisation")
LEAST_SECONDS = 1.0


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
    _check_words(
        run.host, device=device, batch_sizes=batch_sizes, rule=rule, share=share, seconds=seconds, precision=precision
    )
    target = choose_target(run.host, device)
    with open_session("speed", address, run) as session:
        description = session.describe(run.seed)
        question = SpeedQuestion(
            precision=precision or description.baseline["precision"],
            device=target.device,
            batch_sizes=tuple(batch_sizes),
            rule=rule,  # type: ignore[arg-type]
            share=share,
            seconds=seconds,
            seed=run.seed,
        )
        found = measure_speed(session, question, description)
        return keep(session, advise_speed(session.records, question, found.because, found.notes))


def foresee(
    job: AnyJob = "digits",
    *,
    options: Mapping[str, str] | None = None,
    device: str = "auto",
    seconds: float = 15.0,
    run: Run | None = None,
) -> Foreseen:
    """Which probes would `speed` run, and how long should they take? Runs none."""
    run = run or Run()
    address = address_of(job, options)
    device, entries = choose_target(run.host, device).device, earlier_entries(address, run)
    return foresee_speed(entries, job=address.text, machine=run.host.name, device=device, seconds=seconds)


def _check_words(
    host: Host,
    *,
    device: str,
    batch_sizes: Sequence[int],
    rule: str,
    share: float,
    seconds: float,
    precision: str | None,
) -> None:
    """Refuse what cannot be asked before the job is read."""
    for size in batch_sizes:
        if not 1 <= size <= LARGEST_BATCH:
            raise UsageError(f"--batch-sizes names {size:,}; sizes are from 1 to {LARGEST_BATCH:,}")
    check_word("rule", rule, RULES)
    if not 0 < share <= 1:
        raise UsageError(f"--share is {share:g}; it must be above 0 and at most 1, as 0.9 for 90 % of the best")
    if not LEAST_SECONDS <= seconds < float("inf"):
        raise UsageError(f"--seconds is {seconds:g}; it must be at least {LEAST_SECONDS:g}")
    if precision is not None:
        check_word("precision", precision, PRECISIONS)
    check_cuda(host, device)
