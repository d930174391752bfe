"""Seconds of a training step at several batch sizes: in rounds over all of them, or once each in a fresh process."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import torch

from legroom.child.batches import NoBatch
from legroom.child.built_job import BuiltJob
from legroom.child.step_timer import open_timer
from legroom.clock import Clock, monotonic
from legroom.laws.intervals import relative_width
from legroom.questions.speed.child.detailed import flops_of, loads_of, phase_shares
from legroom.questions.speed.child.subject import TOO_MUCH, Subject
from legroom.questions.speed.records import DeviceLoad, StepTime, StepTimes, TimeSteps

KNOWN_WELL = 0.02
"""Half the interval of a median, as a share of it, from which on its subject is visited no more."""
OVERRUN = 3.0
"""How many times the seconds allowed the first rounds may take before they end unfinished."""
MAX_ROUNDS = 60
DOES_NOT_RUN = (*TOO_MUCH, NoBatch)

Visited = TypeVar("Visited")


def time_steps(request: TimeSteps, built: BuiltJob, clock: Clock = monotonic) -> StepTimes:
    """Time the sizes, then look at each in detail where the request says so."""
    torch.manual_seed(request.seed)
    timer = open_timer(torch.device(request.device), clock)
    subjects = [Subject(size, request, built, timer) for size in request.batch_sizes]
    seen = _visit_rising(subjects) if request.run else visit_in_rounds(subjects, Subject.visit, request, clock)
    points = [subject.summary(seen[subject]) for subject in subjects]
    if not request.close:
        return StepTimes(points=points)
    ran = {subject.batch_size: subject for subject in subjects if seen[subject]}
    flops, uncounted = flops_of(list(ran.values()))
    loads, not_measured = loads_of(list(ran.values()), request.device)
    points = [_with_details(point, ran.get(point.batch_size), loads) for point in points]
    return StepTimes(points=points, flops_per_sample=flops, uncounted=uncounted, not_measured=not_measured)


def _with_details(point: StepTime, subject: Subject | None, loads: Mapping[int, DeviceLoad]) -> StepTime:
    if subject is None:
        return point
    return replace(point, shares=phase_shares(subject), load=loads.get(point.batch_size, point.load))


def _visit_rising(subjects: list[Subject]) -> dict[Subject, list[float]]:
    """Each size once, from the smallest on; one that does not run has no value."""
    seen: dict[Subject, list[float]] = {subject: [] for subject in subjects}
    for subject in sorted(subjects, key=lambda subject: subject.batch_size):
        with suppress(*DOES_NOT_RUN):
            seen[subject].append(subject.visit())
    return seen


def visit_in_rounds(
    subjects: Sequence[Visited], visit: Callable[[Visited], float], request: TimeSteps, clock: Clock = monotonic
) -> dict[Visited, list[float]]:
    """What the visits gave, a value a round, until every median is known well or the time is spent.

    A drift of the machine thus meets all alike. A subject whose median is known well leaves the rounds to the others:
    what a GPU computes repeats itself to a thousandth, what its host launches varies by a third. One that does not run
    is visited no more and keeps what it has.
    """
    order, started = random.Random(request.seed), clock()
    seen: dict[Visited, list[float]] = {subject: [] for subject in subjects}
    left = list(subjects)
    for round_number in range(1, MAX_ROUNDS + 1):
        for subject in order.sample(left, len(left)):
            try:
                seen[subject].append(visit(subject))
            except DOES_NOT_RUN:
                left.remove(subject)
        spent = clock() - started
        if spent > OVERRUN * request.seconds or (round_number >= request.min_rounds and spent > request.seconds):
            break
        if round_number >= request.min_rounds:
            left = [subject for subject in left if relative_width(seen[subject]) > KNOWN_WELL]
        if not left:
            break
    return seen
