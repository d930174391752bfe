"""Numbers of workers worth a race with the step: those that the law of the loader leaves open, and then more."""

import math
from dataclasses import replace

from legroom.laws.loading import ENOUGH, LoaderLaw, fit_loader_law, workers_for_devices
from legroom.questions.loading.parts import CANNOT, Parts
from legroom.questions.loading.races import Races
from legroom.questions.loading.records import Lane

HOPELESS = 0.5
"""Share of the rate expected of others below which loading without workers is not raced."""
LARGER = 1.5


def first_counts(parts: Parts, races: Races) -> list[int]:
    """No workers, where that is not hopeless; what the law says, and some fewer and more."""
    if races.most_workers == 0:
        return [0]
    most, law = races.most_workers, parts.law
    cores = min(races.question.num_cores, parts.num_filling_cores, most)
    by_law = _by_law(parts, races)
    if parts.without_workers >= ENOUGH * parts.needed:
        return [0, 1]  # nothing can be gained by workers but the last 2 %
    if races.question.num_devices > 1:
        return [by_law]  # a race of one device would not show what the others take
    best = min(parts.needed, law.samples_per_second(by_law))
    # On many cores no half as many again of workers that wait more than they work, as those are many.
    larger = [int(LARGER * by_law) + 1] if races.is_few or by_law <= LARGER * cores else []
    counts = {min(max(num, 1), most) for num in (by_law // 2, by_law, *larger)}
    counts = {num for num in counts if num == by_law or _is_open(num, best, parts, races)}
    counts |= {cores} if len(counts) == 1 else set()  # or nothing would tell whether it gains
    return sorted(counts | ({0} if parts.without_workers >= HOPELESS * best else set()))


def _is_open(num: int, best: float, parts: Parts, races: Races) -> bool:
    """Whether so many may be about as fast; on many cores by the law, as every count that starts costs a second."""
    return parts.can_reach(best, num) and (races.is_few or parts.law.samples_per_second(num) >= CANNOT * best)


def _by_law(parts: Parts, races: Races) -> int:
    """As many as the law names; on many cores as many as those, where workers hinder each other and the law names more
    than half: two points do not tell how the rate bends between them or beyond."""
    law, question = parts.law, races.question
    # Beyond full cores the law only follows the noise of its two counts.
    most = max(1, min(races.most_workers, parts.num_filling_cores))
    cores = min(question.num_cores, most)
    by_law = workers_for_devices(law, parts.needed, question.num_devices, most)
    hinders = replace(law, ceiling=math.inf).samples_per_second(cores) < CANNOT * cores * law.rate
    is_guess = hinders and not races.is_few and question.num_devices == 1
    return cores if is_guess and 2 * by_law > cores else by_law


def more_workers(parts: Parts, races: Races) -> int | None:
    """Twice the workers, or as many as feed the device; None where nothing is to gain."""
    rates = races.rates()
    top = max(rates, key=lambda lane: lane.num_workers)
    is_end = top.num_workers == 0 or top.num_workers >= races.most_workers
    if is_end or rates[top] >= ENOUGH * parts.eaten or not _gains(top, races):
        return None
    most, needed = min(races.most_workers, 2 * top.num_workers), parts.needed
    law = _raced_law(parts, races)
    if rates[top] >= min(ENOUGH, 1 - races.doubt) * needed or rates[top] >= ENOUGH * law.samples_per_second(most):
        return None
    enough = [num for num in range(top.num_workers + 1, most) if law.samples_per_second(num) >= needed]
    return min([*enough, most])


def _gains(top: Lane, races: Races) -> bool:
    """Whether it is faster than all others by more than turns of one setting differ."""
    rates = races.rates()
    others = max((rate for lane, rate in rates.items() if lane != top), default=0.0)
    return min(ENOUGH, 1 - races.doubt) * rates[top] > others


def _raced_law(parts: Parts, races: Races) -> LoaderLaw:
    """The law through one worker alone and all counts raced with the step."""
    raced = {lane.num_workers: rate for lane, rate in races.rates().items() if lane.num_workers > 1}
    return fit_loader_law({1: parts.workers[1].samples_per_second} | raced)
