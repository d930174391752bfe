"""What the choice has to stand against: fewer workers, close rivals, and the same workers set up otherwise."""

from dataclasses import replace

from legroom.laws.loading import ENOUGH, WORKER_BYTES
from legroom.laws.ranking import loader_cost
from legroom.questions.loading.counts import LARGER
from legroom.questions.loading.parts import Parts
from legroom.questions.loading.races import Races
from legroom.questions.loading.records import Lane

SETTLED = 0.93
"""A rival below this share of the best is not raced again."""
MOSTLY = 0.5
"""Share of the cores from which on workers, not the process that takes batches from them, set the pace."""


def raced_with_choice(parts: Parts, races: Races) -> tuple[Lane, ...]:
    """The choice first, then all that may be better."""
    chosen = races.chosen()
    is_fed = races.rates()[chosen] >= ENOUGH * parts.eaten
    lanes = [*_between(chosen, parts, races), *_rivals(chosen, is_fed, races)]
    return (chosen, *lanes, *([] if is_fed else _variants(chosen, parts, races)))


def _between(chosen: Lane, parts: Parts, races: Races) -> list[Lane]:
    """The middle of the fewest workers that are enough and the next fewer, which are not."""
    below = [lane.num_workers for lane in races.rates() if lane.num_workers < chosen.num_workers]
    middle = (max(below, default=0) + chosen.num_workers) // 2
    is_cheap = races.is_few or middle <= LARGER * races.question.num_cores
    is_new = middle not in (0, chosen.num_workers, *below)
    is_open = is_cheap and is_new and parts.can_reach(races.rates()[chosen], middle)
    return [Lane(num_workers=middle)] if is_open else []


def _rivals(chosen: Lane, is_fed: bool, races: Races) -> list[Lane]:
    """The two next best; more workers are none where the device already gets all it eats."""
    rates = races.rates()
    rivals = sorted(rates, key=lambda lane: rates[lane], reverse=True)
    close = [lane for lane in rivals if lane != chosen and rates[lane] >= SETTLED * max(rates.values())]
    return [lane for lane in close if loader_cost(lane) < loader_cost(chosen) or not is_fed][:2]


def _variants(chosen: Lane, parts: Parts, races: Races) -> list[Lane]:
    """Twice the batches ahead, and memory not pinned.

    Every setting takes a second and more to start on many cores. Where workers fill these, many batches wait already;
    where they fill half of them, copying by the training process is not what holds them up.
    """
    if chosen.num_workers == 0:
        return []
    cores = min(races.question.num_cores, parts.num_filling_cores)
    share = 0.0 if races.is_few else chosen.num_workers / cores
    if share >= 1:
        return []
    found = []
    if parts.most_in_memory(WORKER_BYTES) >= 2 * chosen.num_workers:
        found.append(replace(chosen, prefetch_factor=2 * chosen.prefetch_factor))
    if races.question.device != "cpu" and share <= MOSTLY:
        found.append(replace(chosen, pin_memory=False))
    return found


def threads_left_alone(parts: Parts, races: Races) -> tuple[Lane, ...]:
    """The choice with one BLAS thread and with all of them, for a note; on many cores it would take too long."""
    chosen = races.chosen()
    if races.is_few and chosen.num_workers and parts.prepares_on_many_cores:
        return chosen, replace(chosen, blas_threads=None)
    return ()
