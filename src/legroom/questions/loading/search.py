"""The search for loader settings: three probes fit a law, the few counts it leaves open are compared with the step."""

from legroom.errors import JobError, OutOfMemory
from legroom.questions.loading.candidates import (
    challengers,
    first_counts,
    has_few_cores,
    more_workers,
    nearer_the_edge,
    threads_left_alone,
)
from legroom.questions.loading.evidence import Evidence, read_evidence
from legroom.questions.loading.records import (
    INLINE,
    ComparedLoaders,
    CompareLoaders,
    LoaderSettings,
    LoadingQuestion,
    What,
)
from legroom.session import Session

MOST_EXTENSIONS = 4
MOST_HALVINGS = 6
MANY_WORKERS = 4
"""A core: more of them mostly wait."""
FEW_SETTINGS = 3


def find_loading(session: Session, question: LoadingQuestion) -> None:
    """Ask all that the advice needs; the answers lie in the session's logbook."""
    seen = _parts(session, question)
    session.progress("loader and step together", 0.4)
    seen = _with_step(session, question, tuple(LoaderSettings(num_workers=num) for num in first_counts(seen)))
    if question.num_devices == 1:
        seen = _settle(session, _extend(session, seen))
        seen = _halve(session, seen)
        if threads := threads_left_alone(seen):
            seen = _with_step(session, question, threads, num_rounds=1)
    session.progress("cold storage", 0.9)
    session.ask(question.cold_read(seen.chosen))


def _parts(session: Session, question: LoadingQuestion) -> Evidence:
    """The step alone, and the loader alone with 0, 1 and as many workers as there are cores."""
    session.progress("the step alone", 0.1)
    seen = _compare(session, question, "step", (INLINE,), num_rounds=3)
    session.progress("the loader alone", 0.2)
    counts = {min(num, seen.most_in_memory()) for num in (1, question.num_cores)} - {0}
    # Workers first: what kills one of them would kill the training process, and tell less.
    settings = tuple(LoaderSettings(num_workers=num) for num in [*sorted(counts), 0])
    return _compare(session, question, "load", settings, num_rounds=2 if has_few_cores(question) else 1)


def _extend(session: Session, seen: Evidence) -> Evidence:
    """More workers, as long as the largest count gains."""
    for _ in range(MOST_EXTENSIONS):
        more = more_workers(seen)
        if more is None:
            break
        session.progress(f"{more} workers", 0.55)
        counts = (max(seen.by_count), more)
        seen = _with_step(session, seen.question, tuple(LoaderSettings(num_workers=num) for num in counts))
    return seen


def _settle(session: Session, seen: Evidence) -> Evidence:
    """A last comparison of the choice; longer on few cores, where turns differ most, unless that would take long."""
    settings = challengers(seen)
    if len(settings) == 1:
        return seen
    session.progress("checking the choice", 0.75)
    is_many = max(one.num_workers for one in settings) > MANY_WORKERS * seen.question.num_cores
    more = 0 if not has_few_cores(seen.question) else 1 if is_many or len(settings) > FEW_SETTINGS else 3
    return _with_step(session, seen.question, settings, num_rounds=_num_rounds(seen.question) + more)


def _halve(session: Session, seen: Evidence) -> Evidence:
    """Where throughput falls off a cliff, or workers cannot run, halve what lies between."""
    for _ in range(MOST_HALVINGS):
        middle = nearer_the_edge(seen)
        if middle is None:
            break
        session.progress(f"{middle.num_workers} workers", 0.85)
        seen = _with_step(session, seen.question, (seen.chosen, middle))
    return seen


def _with_step(
    session: Session, question: LoadingQuestion, settings: tuple[LoaderSettings, ...], num_rounds: int | None = None
) -> Evidence:
    """Loader and step together, in turns; where no loader can run, without workers."""
    seen = _compare(session, question, "together", settings, num_rounds or _num_rounds(question))
    return seen if seen.rounds else _with_step(session, question, (INLINE,))


def _num_rounds(question: LoadingQuestion) -> int:
    return 4 if has_few_cores(question) else 3


def _compare(
    session: Session, question: LoadingQuestion, what: What, settings: tuple[LoaderSettings, ...], num_rounds: int
) -> Evidence:
    """One comparison more, and all that is known with it."""
    window = 0.25 if has_few_cores(question) else 0.2
    ask_comparison(
        session, question.comparison(what, settings, num_rounds=num_rounds, window_seconds=window, keep=True)
    )
    return read_evidence(session.records, question)


def ask_comparison(session: Session, request: CompareLoaders) -> ComparedLoaders:
    """What each loader did; errors say at which batch and with which workers."""
    counts = " and ".join(f"{settings.num_workers}" for settings in request.lanes)
    what = "The step on" if request.what == "step" else f"With {counts} workers and"
    try:
        return session.ask(request)
    except OutOfMemory as error:
        message = f"A batch of {request.batch_size:,} does not fit: {error}. legroom memory finds the largest that does"
        raise OutOfMemory(message, details=error.details) from None
    except JobError as error:
        kept = " What was measured before is kept; --resume goes on from there." if session.records.entries else ""
        message = f"{what} batches of {request.batch_size:,}: {error}.{kept}"
        raise type(error)(message, details=error.details, facts=error.facts) from None
