"""Which loaders are worth running with the step next, by what was seen so far."""

import math
from dataclasses import replace

from legroom.laws.loading import ENOUGH, MOST_WORKERS, LoaderLaw, workers_for_devices
from legroom.questions.loading.evidence import Evidence, loader_cost
from legroom.questions.loading.records import LoaderSettings, LoadingQuestion

FEW_CORES = 8
"""On fewer, settings differ by noise of 5 % and more: they get longer turns and more of them. On more, starting workers
takes longer than running them, so that only those start whose throughput can change the choice."""
CANNOT = 0.8
"""A count cannot be enough where that share of the best would be more than its workers' throughputs added up."""
HOPELESS = 0.5
"""Share of the throughput expected of others below which loading without workers is not tried."""
LARGER = 1.5
MANY_THREADS = 1.25
SETTLED = 0.93
"""A rival below this share of the best is not compared again."""
MOSTLY = 0.5
"""Share of the cores from which on workers, not the process that takes batches from them, set the pace."""
WORTH = 1.02
"""What workers nearer the edge of a cliff must promise, as a share of the choice's throughput."""


def has_few_cores(question: LoadingQuestion) -> bool:
    """Whether turns are cheap and noisy, rather than workers dear to start."""
    return question.num_cores < FEW_CORES


def first_counts(seen: Evidence) -> list[int]:
    """No workers, where that is not hopeless; what the law says, and some fewer and more."""
    law, most, few = seen.law, seen.most_workers, has_few_cores(seen.question)
    if law is None or most == 0:
        return [0]
    if _without_workers(seen) >= ENOUGH * _needed(seen):
        return [0, 1]  # nothing can be gained by workers but the last 2 %
    by_law = _by_law(seen, law)
    if seen.question.num_devices > 1:
        return [by_law]  # a comparison on one device would not show what the others take
    cores = min(_num_filling_cores(seen, law), seen.question.num_cores, most)
    best = min(_needed(seen), law.samples_per_second(by_law))
    # On many cores no half as many again of workers that wait more than they work, as those are many.
    larger = [int(LARGER * by_law) + 1] if few or by_law <= LARGER * cores else []
    counts = {min(max(num, 1), most) for num in (by_law // 2, by_law, *larger)}
    # On many cores by the law, as every count that starts costs a second.
    counts = {
        num
        for num in counts
        if num == by_law
        or (_can_reach(seen, best, num) and (few or num <= 2 or law.samples_per_second(num) >= CANNOT * best))
    }
    counts |= {cores} if len(counts) == 1 else set()  # or nothing would tell whether it gains
    return sorted(counts | ({0} if _without_workers(seen) >= HOPELESS * best else set()))


def _by_law(seen: Evidence, law: LoaderLaw) -> int:
    """As many as the law names; on many cores as many as those, where workers hinder each other and the law names more
    than half: two points do not tell how the throughput bends between them or beyond."""
    question = seen.question
    # Beyond full cores the law only follows the noise of its two counts.
    most = max(1, min(seen.most_workers, _num_filling_cores(seen, law)))
    cores = min(question.num_cores, most)
    by_law = workers_for_devices(law, _needed(seen), question.num_devices, most)
    hinders = replace(law, ceiling=math.inf).samples_per_second(cores) < CANNOT * cores * law.rate
    is_guess = hinders and not has_few_cores(question) and question.num_devices == 1
    return cores if is_guess and 2 * by_law > cores else by_law


def more_workers(seen: Evidence) -> int | None:
    """Twice the workers, or as many as feed the device; None where nothing is to gain."""
    top, needed = max(seen.by_count), _needed(seen) if seen.workers else 0.0
    reached = seen.by_count[top]
    others = max((throughput for num, throughput in seen.by_count.items() if num != top), default=0.0)
    sure = min(ENOUGH, 1 - seen.last_spread)  # by more than turns of one setting differ
    is_end = top == 0 or top >= seen.most_workers
    if is_end or reached >= ENOUGH * _step_throughput(seen) or sure * reached <= others or reached >= sure * needed:
        return None
    law, most = seen.law_with_step(MOST_WORKERS), min(seen.most_workers, 2 * top)
    if reached >= ENOUGH * law.samples_per_second(most):
        return None
    return next((num for num in range(top + 1, most) if law.samples_per_second(num) >= needed), most)


def challengers(seen: Evidence) -> tuple[LoaderSettings, ...]:
    """The choice first, then all that may be better."""
    is_fed = _is_fed(seen)
    return (seen.chosen, *_between(seen), *_rivals(seen, is_fed), *([] if is_fed else _variants(seen)))


def _between(seen: Evidence) -> list[LoaderSettings]:
    """The middle of the fewest workers that are enough and the next fewer, which are not."""
    chosen = seen.chosen.num_workers
    below = max((num for num in seen.by_count if num < chosen), default=0)
    middle = (below + chosen) // 2
    is_cheap = has_few_cores(seen.question) or middle <= LARGER * seen.question.num_cores
    is_new = middle not in (0, below, chosen)
    is_open = is_cheap and is_new and _can_reach(seen, seen.ranked[seen.chosen], middle)
    return [LoaderSettings(num_workers=middle)] if is_open else []


def _rivals(seen: Evidence, is_fed: bool) -> list[LoaderSettings]:
    """The two next best; more workers are none where the device already gets all it takes."""
    best, cost = max(seen.ranked.values()), loader_cost(seen.chosen)
    by_throughput = sorted(seen.ranked, key=lambda settings: seen.ranked[settings], reverse=True)
    close = [one for one in by_throughput if one != seen.chosen and seen.ranked[one] >= SETTLED * best]
    return [one for one in close if loader_cost(one) < cost or not is_fed][:2]


def _variants(seen: Evidence) -> list[LoaderSettings]:
    """Twice the batches ahead, and memory not pinned.

    Every setting takes a second and more to start on many cores. Where workers fill these, many batches wait already;
    where they fill half of them, copying by the training process is not what holds them up.
    """
    chosen, question, law = seen.chosen, seen.question, seen.law
    if chosen.num_workers == 0 or law is None:
        return []
    cores = min(question.num_cores, _num_filling_cores(seen, law))
    share = 0.0 if has_few_cores(question) else chosen.num_workers / cores
    if share >= 1:
        return []
    found, ahead = [], 2 * chosen.prefetch_factor
    if seen.most_in_memory(prefetch_factor=ahead) >= chosen.num_workers:
        found.append(replace(chosen, prefetch_factor=ahead))
    if question.device != "cpu" and share <= MOSTLY:
        found.append(replace(chosen, pin_memory=False))
    return found


def nearer_the_edge(seen: Evidence) -> LoaderSettings | None:
    """Workers between those that scale and those that do not; None where these promise little."""
    chosen, law = seen.chosen.num_workers, seen.law
    if law is None or seen.repeats_samples or _is_fed(seen):
        return None
    fewest = min((num for num in seen.by_count if num), default=0)
    if fewest > 1 and _can_reach(seen, max(seen.ranked.values()), fewest // 2):
        return replace(seen.chosen, num_workers=fewest // 2)  # all that ran may lie beyond the edge
    above = [num for num in seen.by_count if num > chosen]
    failed = [one.lane.num_workers for one in seen.failed if one.lane.num_workers > chosen]
    edge = (seen.falls_at if above else min(failed, default=None)) or 0
    middle = max(chosen + 1, math.isqrt(max(chosen, 1) * edge))
    promised = min(_needed(seen), law.ceiling, _promised(seen, middle))
    is_worth = middle < edge and promised >= WORTH * seen.ranked[seen.chosen]
    return replace(seen.chosen, num_workers=middle) if is_worth else None


def _promised(seen: Evidence, num_workers: int) -> float:
    """Samples per second of workers that add as much as the chosen ones; by the law, where that explains a fall.

    One worker is a point of every law, which explains any fall after it.
    """
    chosen = seen.chosen.num_workers
    if chosen > 1 and seen.falls_at and not seen.cliff:
        return seen.law_with_step(MOST_WORKERS).samples_per_second(num_workers)
    return num_workers * (seen.ranked[seen.chosen] / chosen if chosen else seen.workers[1].samples_per_second)


def threads_left_alone(seen: Evidence) -> tuple[LoaderSettings, ...]:
    """The choice with one BLAS thread and with all of them, for a note; on many cores it would take too long.

    Only where threads work on a batch without workers: more core seconds than seconds, or than one thread takes, where
    they get in each other's way.
    """
    chosen = seen.chosen
    if chosen.num_workers == 0 or not seen.workers or not has_few_cores(seen.question):
        return ()
    inline, one_thread = seen.alone[0], seen.workers[1].worker_cpu_seconds
    uses_threads = inline.main_cpu_seconds > MANY_THREADS * min(inline.median_seconds, one_thread)
    return (chosen, replace(chosen, blas_threads=None)) if uses_threads else ()


def _num_filling_cores(seen: Evidence, law: LoaderLaw) -> int:
    """Workers that keep every core busy: those that mostly wait, as for storage, may be many.

    Workers that get in each other's way seem to wait, so the count that waits least tells.
    """
    question, one = seen.question, seen.workers[1]
    shares = [each.worker_cpu_seconds / (each.median_seconds * num) for num, each in seen.workers.items()]
    busy = min(max(*shares, 1e-3), 1.0)
    if question.device == "cpu":
        return int(question.num_cores / busy) + 1  # while it computes, the step takes the cores from them
    # Of one core: what the training process takes to launch steps and take batches, at full throughput.
    training = (seen.step.main_cpu_seconds + one.main_cpu_seconds) * min(_needed(seen), law.ceiling)
    return max(1, round((question.num_cores - min(1.0, training / one.samples_per_batch)) / busy))


def _step_seconds(seen: Evidence) -> float:
    """Of the step alone. Beside a GPU by the fastest turn: what differs is the host that launches, and after a slow
    moment of it too few workers would seem enough."""
    return seen.step.median_seconds if seen.question.device == "cpu" else min(seen.step.batch_seconds)


def _step_throughput(seen: Evidence) -> float:
    return seen.step.samples_per_batch / _step_seconds(seen)


def _needed(seen: Evidence) -> float:
    """What the device takes; beside a GPU, the training process has to take each batch from a worker first."""
    if seen.question.device == "cpu":
        return _step_throughput(seen)
    taking = min(one.main_thread_seconds for one in seen.workers.values())
    return seen.step.samples_per_batch / (_step_seconds(seen) + taking)


def _is_fed(seen: Evidence) -> bool:
    return seen.ranked[seen.chosen] >= ENOUGH * _step_throughput(seen)


def _without_workers(seen: Evidence) -> float:
    """Samples per second where the training process prepares each batch itself."""
    inline = seen.alone[0]
    return inline.samples_per_batch / (inline.median_seconds + seen.step.median_seconds)


def _can_reach(seen: Evidence, best: float, num_workers: int) -> bool:
    """Whether so many could be about as fast as the best, if none got in another's way."""
    each = max(one.samples_per_second / num for num, one in seen.workers.items())
    return num_workers * each >= CANNOT * best
