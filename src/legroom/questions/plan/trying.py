"""Tries out what a plan is about to recommend: the choice on fresh seeds, or changes beside settings that stay."""

from collections.abc import Mapping
from typing import Any

from legroom.errors import JobError, UsageError
from legroom.questions.base import START_SECONDS
from legroom.questions.plan.asking import LONG, SHARES, Search
from legroom.questions.plan.baseline import baseline_of
from legroom.questions.plan.choice import SHORTER
from legroom.questions.plan.evidence import read_own_run, step_seconds
from legroom.questions.plan.factors import pace_of
from legroom.questions.plan.faster import Changes
from legroom.questions.plan.forecast import Forecast, forecast_of
from legroom.questions.plan.found import rehearsal_words, turn_words
from legroom.questions.plan.kept import changes_of_own, own_ratio
from legroom.questions.plan.records import OwnTurn, PlanQuestion
from legroom.questions.plan.rehearsal import LEAST_TURN, MOST_RUNS, TURN_SECONDS, rehearse
from legroom.questions.plan.seeking import whole_run_seconds
from legroom.questions.plan.tried import WIDE, are_steady, own_steps, rehearsals_of, spread_of
from legroom.session import Session
from legroom.training.records import Train

TRIED_SHARE, TRIED_OWN_SHARE, LEFT_SHARE, MOST_TRIED = 0.2, 0.1, 0.6, 3
"""Of the budget, that trying a choice out may take; of the job's own run, where that is long; of what is left there of
the budget; and how many choices."""
SHORTER_GAIN = 0.05
"""Of the seconds of the job's own run, that a shorter run must save to be tried out."""
NUM_TURNS, FIRST_TURN_SEED, FIRST_OWN_SEED = 3, 300, 200
"""Of the job's own updates without changes and with them; the first seed of these, and that of more runs by the job's
own settings, which no other runs have."""


def try_out(search: Search) -> None:
    """What was chosen on fresh seeds; where that is not what it promised, the next best."""
    mark = search.mark()
    search.run.progress("rehearsal: the plan's own run on fresh seeds", SHARES["rehearsal"][0])
    with search.session() as session:
        session.describe(search.run.seed)
        for _ in range(MOST_TRIED):
            if _is_settled(search.question) or not _try_next(search, session):
                break
        while _may_be_shorter(search.question) and _try_next(search, session, shorter=True):
            pass
        search.note("rehearsal", mark, session.records.seconds(), rehearsal_words(search.question.rehearsals))


def _is_settled(question: PlanQuestion) -> bool:
    """Whether something was tried out that is surely better, with every seed alike."""
    tried = forecast_of(question)
    return (
        tried is not None and tried.is_tried and tried.is_better and are_steady(rehearsals_of(question, tried.chosen))
    )


def _may_be_shorter(question: PlanQuestion) -> bool:
    """Whether a shorter run of what was tried out would save enough to be worth trying it out."""
    tried = forecast_of(question)
    if tried is None or not _is_settled(question):
        return False
    own = tried.baseline.seconds
    return own is None or (1 - SHORTER) * tried.chosen.seconds >= SHORTER_GAIN * own


def _try_next(search: Search, session: Session, *, shorter: bool = False) -> bool:
    """Try out the best of what was not; whether there was time for a run of it."""
    found = forecast_of(search.question, untried=True, shorter=shorter)
    is_here = found is not None and found.chosen.num_devices <= search.question.num_devices_here
    return found is not None and is_here and found.is_worth_trying and _rehearse(search, session, found)


def _rehearse(search: Search, session: Session, found: Forecast) -> bool:
    """Runs of one choice, as many as a share of the budget and of a long run of the job's own allow; whether any was
    made."""
    question, wanted = search.question, _wanted_seconds(search)
    limit = min(wanted, search.left())
    try:
        runs = rehearse(session, question, found, search.about.device, search.run.seed, limit)
    except (JobError, UsageError) as error:
        _leave_out(search, found, error)
        return True
    if not runs and limit < wanted:
        search.miss(f"The plan was not tried out on fresh seeds: the budget left {search.told()}. Raise --budget")
    search.learn(rehearsals=[*question.rehearsals, *runs])
    return bool(runs)


def _leave_out(search: Search, found: Forecast, error: JobError | UsageError) -> None:
    """Go on without what a failed run had that the job's own run has not; raised where there was nothing."""
    if _has_faster(search):
        search.miss(f"What made steps faster was left out: a run with it failed. {error}")
        search.learn(variants=None, environment=None)
    elif found.chosen.num_devices > 1:
        search.miss(f"The plan is for one device: a run on several failed. {error}")
        search.learn(numbers=(1,))
    else:
        raise error


def _has_faster(search: Search) -> bool:
    quick, variables = search.question.variants, search.question.environment
    return bool((quick and quick.chosen) or (variables and variables.variables))


def _wanted_seconds(search: Search) -> float:
    """What trying out may take: less where the job's own run is long, so that the plan costs a share of it, and more
    where the questions before left more."""
    whole, wanted = whole_run_seconds(search.question), TRIED_SHARE * search.budget
    return wanted if whole <= LONG else max(min(wanted, TRIED_OWN_SHARE * whole), LEFT_SHARE * search.left())


def try_own(search: Search) -> None:
    """What was found to make the job's own updates faster, in turn with these, where its settings stay."""
    found, changes = forecast_of(search.question), changes_of_own(search.question)
    is_open = search.question.is_judged and not (found is not None and found.is_better)
    if not is_open or not changes or changes.settings.get("compile"):
        return
    seconds = _turn_seconds(search)
    if search.left() < 2 * NUM_TURNS * (seconds + START_SECONDS):
        if own_ratio(search.question) is not None:  # sure without turns
            return
        search.miss(
            f"Changes that should make the job's own updates faster were left out, since they could not be tried out: "
            f"the budget left {search.told()}. Raise --budget"
        )
        return
    mark = search.mark()
    search.run.progress("turns: the job's own updates, and the same made faster", SHARES["rehearsal"][1])
    with search.session() as session:
        session.describe(search.run.seed)
        try:
            turns = [_turn(search, session, changes, place, seconds) for place in range(NUM_TURNS)]
        except JobError as error:
            search.miss(f"Changes that should make the job's own updates faster were left out: they failed. {error}")
            return
        search.learn(turns=[turn for turn in turns if turn is not None])
        search.note("turns", mark, session.records.seconds(), turn_words(search.question.turns))


def _turn_seconds(search: Search) -> float:
    """Of each turn: no more than a share of the run that is to be made faster."""
    own = baseline_of(search.question).candidate
    return min(TURN_SECONDS, TRIED_OWN_SHARE * _wanted_seconds(search), own.seconds if own else TURN_SECONDS)


def _turn(search: Search, session: Session, changes: Changes, place: int, seconds: float) -> OwnTurn | None:
    """One without the changes and one with them, of the same updates; None where either was too short to be timed."""
    question, pace, own = search.question, pace_of(search.question), baseline_of(search.question).candidate
    assert pace is not None
    step = own.step_seconds if own else pace.step(int(question.baseline["batch_size"]), 0)
    num_steps = max(LEAST_TURN, round(seconds / step))

    def run(settings: Mapping[str, Any], variables: Mapping[str, str]) -> float | None:
        words = {**question.baseline, **settings, "seed": search.run.seed + FIRST_TURN_SEED + place}
        return step_seconds(
            session.ask(
                Train(
                    device=search.about.device,
                    settings=words,
                    variables=variables,
                    num_steps=num_steps,
                    evaluate_steps=num_steps,
                )
            )
        )

    arms: list[tuple[Mapping[str, Any], Mapping[str, str]]] = [({}, {}), (changes.settings, changes.variables)]
    order = 1 if place % 2 == 0 else -1  # a machine that slows down slows both
    without, with_changes = [run(*arm) for arm in arms[::order]][::order]
    if without is None or with_changes is None:
        return None
    return OwnTurn(
        own_step_seconds=without,
        step_seconds=with_changes,
        settings=dict(changes.settings),
        variables=dict(changes.variables),
    )


def run_own(search: Search) -> None:
    """More runs by the job's own settings, where these stay and the runs that were made lie too far apart to foretell
    the next."""
    found, limit = forecast_of(search.question), min(_wanted_seconds(search), search.left())
    if found is None or found.is_better or found.baseline.source != "measured" or found.baseline.seconds is None:
        return
    mark, spent = search.mark(), 0.0
    with search.session() as session:
        description = session.describe(search.run.seed)
        while _is_open(search.question) and spent + found.baseline.seconds < limit:
            request = _own_request(search, len(search.question.runs))
            ran = session.ask(request)
            run = read_own_run(request, ran, description, request.target)
            if run is None:
                break
            spent += ran.seconds
            search.learn(runs=[*search.question.runs, run])
        if spent:
            told = f"{len(search.question.runs)} runs by the job's own settings"
            search.note("baseline", mark, session.records.seconds(), told)


def _is_open(question: PlanQuestion) -> bool:
    return len(question.runs) < MOST_RUNS and spread_of(own_steps(question)) > WIDE


def _own_request(search: Search, place: int) -> Train:
    question, target = search.question, search.question.target
    assert target is not None
    every = None if question.looks_samples is None else max(1, round(question.looks_samples / question.own_size))
    settings = {**question.baseline, "seed": search.run.seed + FIRST_OWN_SEED + place}
    aim = (target["name"], target["value"])
    return Train(device=search.about.device, settings=settings, target=aim, evaluate_steps=every)
