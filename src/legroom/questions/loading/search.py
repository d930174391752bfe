"""The search for loader settings: three probes fit a law, the few counts it leaves open race with the step."""

from legroom.questions.loading.choice import raced_with_choice, threads_left_alone
from legroom.questions.loading.counts import first_counts, more_workers
from legroom.questions.loading.parts import Parts
from legroom.questions.loading.races import Races
from legroom.questions.loading.records import Lane, LoadingQuestion, ReadCold
from legroom.session import Session

MOST_EXTENSIONS = 4
MANY_WORKERS = 4
"""A core: more of them mostly wait."""
FEW_LANES = 3


def find_loading(session: Session, question: LoadingQuestion) -> None:
    """Ask all that the advisor needs; the answers lie in the session's logbook."""
    races = Races(session, question)
    parts = Parts(races)
    session.progress("loader and step together", 0.4)
    races.race(tuple(Lane(num_workers=num) for num in first_counts(parts, races)))
    if question.num_devices == 1:
        _extend(parts, races)
        _settle(parts, races)
    session.progress("cold storage", 0.9)
    session.ask(
        ReadCold(
            device=question.device,
            batch_size=question.batch_size,
            precision=question.precision,
            lane=races.chosen(),
            seed=question.seed,
            patience_seconds=question.patience_seconds,
        )
    )


def _extend(parts: Parts, races: Races) -> None:
    """More workers, as long as the largest count gains."""
    for _ in range(MOST_EXTENSIONS):
        more = more_workers(parts, races)
        if more is None:
            return
        races.session.progress(f"{more} workers", 0.55)
        top = max(races.rates(), key=lambda lane: lane.num_workers)
        races.race((top, Lane(num_workers=more)))


def _more_rounds(lanes: tuple[Lane, ...], races: Races) -> int:
    """On few cores turns differ most; but many settings, and many workers, take long for each."""
    if not races.is_few:
        return 0
    many = max(lane.num_workers for lane in lanes) > MANY_WORKERS * races.question.num_cores
    return 1 if many or len(lanes) > FEW_LANES else 3


def _settle(parts: Parts, races: Races) -> None:
    """A last race of the choice, and a turn for a note."""
    lanes = raced_with_choice(parts, races)
    if len(lanes) > 1:
        races.session.progress("checking the choice", 0.75)
        races.race(lanes, num_rounds=races.num_rounds + _more_rounds(lanes, races))
    if threads := threads_left_alone(parts, races):
        races.race(threads, num_rounds=1)
