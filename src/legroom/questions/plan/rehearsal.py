"""Tries out what was chosen before it is recommended: its own run to the target, on seeds that nothing was sought with.

A search meets the seeds it was made with at their luckiest. A run of the plan itself, evaluated as `legroom prove`
does, tells what a fresh one takes, and whether that is less than the job's own settings take at all. Before each a
turn of the job's own updates is timed: a machine that others use is faster at one minute than at the next.
"""

import math
from dataclasses import asdict

from legroom.questions.base import START_SECONDS
from legroom.questions.plan.candidates import Candidate
from legroom.questions.plan.choice import NUM_RUNS, NUM_SHORTER, num_cuts
from legroom.questions.plan.device_words import wire_items
from legroom.questions.plan.evidence import evaluation_seconds, step_seconds
from legroom.questions.plan.faster import changes_at
from legroom.questions.plan.forecast import Forecast
from legroom.questions.plan.records import PlanQuestion, Rehearsal
from legroom.questions.plan.tried import WIDE, choice_of, counted_steps, length_after, spread_of
from legroom.questions.plan.way import settings_of_run
from legroom.requests import JobDescription
from legroom.session import Session
from legroom.training.records import Several, Train, Trained

MOST_RUNS, CHEAP_SECONDS = 8, 3.0
"""Of one choice: more than are needed only while all together took no longer than so many seconds."""
FIRST_SEED = 100
"""Between those that a search uses and those that a proof does."""
SEEDS_APART = 10
"""Between the seeds of one choice and the next, of the job's own turns as of shorter runs: equal turns would be
recalled, and be of another minute."""
LEAST_THERE = 2
"""Runs at the target, without which more are made."""
TURN_SECONDS, TURN_SHARE, LEAST_TURN = 2.0, 0.1, 5
"""Of the job's own updates before each of the first runs: so many seconds, and no more than that share of what all runs
may take; at least so many updates."""
HOPELESS = 1.5
"""Times the seconds of the job's own settings: a plan that takes so long is not tried out again."""


def rehearse(
    session: Session, question: PlanQuestion, found: Forecast, device: str, seed: int, limit: float
) -> list[Rehearsal]:
    """Runs of what was chosen, as long as they last together no longer than the limit, start-up and turns too."""
    begun, trained, turn_seconds = session.clock(), 0.0, min(TURN_SECONDS, TURN_SHARE * limit)
    runs: list[Rehearsal] = []
    description, length = session.records.description(), found.length
    if limit < _least_seconds(found, turn_seconds):
        return []
    for place in range(MOST_RUNS):
        spent = session.clock() - begun
        is_late = spent + spent / max(1, place) > limit
        if is_late or not (_is_needed(found, runs) or trained * (1 + 1 / place) <= CHEAP_SECONDS):
            break
        fresh = seed + FIRST_SEED + place
        turn = _own_turn(session, question, found, device, fresh, turn_seconds) if place < NUM_RUNS else None
        fresh += SEEDS_APART * num_cuts(found.chosen)
        request = _request(question, found, description, device, fresh, length)
        result = session.ask(request)
        run = read_rehearsal(request, result, found.chosen, turn)
        if run is None:  # it was interrupted
            break
        trained, runs = trained + result.seconds, [*runs, run]
        length = length_after(runs)
        if _is_hopeless(found, run, result.seconds):
            break
    return runs


def _least_seconds(found: Forecast, turn_seconds: float) -> float:
    """What trying it out takes at least; shorter runs tell nothing until all of them are made."""
    num = 1 if found.chosen.length_share == 1 else NUM_SHORTER
    return num * found.chosen.seconds + turn_seconds + 2 * START_SECONDS


def _is_needed(found: Forecast, runs: list[Rehearsal]) -> bool:
    """Whether the runs that were made do not tell enough yet."""
    least = NUM_RUNS if found.chosen.length_share == 1 else NUM_SHORTER
    is_few = len(runs) < least or sum(run.is_there for run in runs) < LEAST_THERE
    return is_few or spread_of(counted_steps(runs)) > WIDE


def _is_hopeless(found: Forecast, run: Rehearsal, seconds: float) -> bool:
    """Whether no other run could make up for this one."""
    own = found.baseline.seconds
    is_short = found.chosen.length_share < 1 and not run.is_there
    return run.diverged or is_short or (own is not None and seconds > HOPELESS * own)


def _request(
    question: PlanQuestion, found: Forecast, description: JobDescription, device: str, seed: int, length: int
) -> Train:
    chosen, target = found.chosen, question.target
    assert target is not None
    changes = changes_at(question, chosen)
    wire = {item.name: item.value for item in wire_items(question, chosen)}
    settings = {**settings_of_run(question, found, length), "seed": seed, **changes.settings, **wire}
    every = None if question.looks_samples is None else max(1, round(question.looks_samples / chosen.size))
    aim = (target["name"], target["value"])
    unused = question.devices is not None and question.devices.find_unused_parameters
    several = Several(num_local=chosen.num_devices, find_unused_parameters=unused)
    return Train(
        device=device,
        settings=settings,
        variables=changes.variables,
        num_steps=length,
        target=aim,
        evaluate_steps=every,
        several=asdict(several) if chosen.num_devices > 1 else {},
    )


def _own_turn(
    session: Session, question: PlanQuestion, found: Forecast, device: str, seed: int, seconds: float
) -> Trained | None:
    """Some updates by the job's own settings; None where nobody knows how long they take to the target."""
    own = found.baseline.candidate
    if own is None:
        return None
    num_steps = max(LEAST_TURN, round(min(seconds, own.seconds) / own.step_seconds))
    num_tried = len({choice_of(run) for run in question.rehearsals})
    settings = {**question.baseline, "seed": seed + SEEDS_APART * num_tried}
    return session.ask(Train(device=device, settings=settings, num_steps=num_steps, evaluate_steps=num_steps))


def read_rehearsal(request: Train, result: Trained, chosen: Candidate, turn: Trained | None = None) -> Rehearsal | None:
    """What such a run showed, and the turn before it; None where it was broken off before an update could be timed.

    One that diverged before that is as fast as was foretold.
    """
    seconds, diverged = step_seconds(result), result.stopped_because == "diverged"
    if seconds is None and diverged:
        seconds = chosen.step_seconds
    if seconds is None:
        return None
    return Rehearsal(
        size=chosen.size,
        num_devices=chosen.num_devices,
        rate_share=chosen.rate_share,
        length_share=chosen.length_share,
        length=request.num_steps or result.num_steps,
        num_steps=result.num_steps,
        is_there=result.stopped_because == "target",
        margin=_margin(request, result),
        diverged=diverged,
        step_seconds=seconds,
        own_step_seconds=step_seconds(turn) if turn else None,
        evaluation_seconds=evaluation_seconds(result, seconds),
        seconds=result.seconds,
    )


def _margin(request: Train, result: Trained) -> float | None:
    """By how much the last evaluation of a run is better than its target."""
    if request.target is None or not result.evaluations:
        return None
    (name, wanted), last = request.target, result.evaluations[-1]
    value = last.score if name == "score" else last.loss
    if value is None or not math.isfinite(value):
        return None
    return value - wanted if name == "score" and result.goal == "max" else wanted - value
