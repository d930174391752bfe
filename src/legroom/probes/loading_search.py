"""The search for loader settings: three probes fit a law, the few counts it leaves open race with the step."""

import statistics
from dataclasses import replace

from legroom.errors import JobError, OutOfMemory
from legroom.laws.loading import (
    ENOUGH,
    MOST_WORKERS,
    LoaderLaw,
    core_ceiling,
    fit_loader_law,
    most_workers_in_memory,
    workers_for_devices,
)
from legroom.laws.race import join_races, pick_cheapest
from legroom.probes.session import Session
from legroom.records import Lane, LaneRate, LoaderRates, LoadingQuestion, RaceLoaders, ReadCold

INLINE = Lane(num_workers=0)
FEW_CORES = 8
"""On fewer, settings differ by noise of 5 % and more: they get longer turns, and one more at last."""
WORKER_BYTES = 2**25
"""What a worker is taken to hold before one has been looked at."""
HOPELESS = 0.5
"""Share of the rate expected of others below which loading without workers is not raced."""
SETTLED = 0.93
"""A rival below this share of the best is not raced again."""
LITTLE = 0.95
"""Where the cores are full already, only a gain of more than 5 % calls for more workers."""
MANY_CORES = 1.25
LARGER = 1.5
MOST_EXTENSIONS = 4


def find_loading(session: Session, question: LoadingQuestion) -> None:
    """Ask all that the advisor needs; the answers lie in the session's logbook."""
    search = _Search(session, question)
    search.measure_parts()
    search.race_candidates()
    if question.num_devices == 1:
        search.extend()
        search.settle()
    session.progress("cold storage", 0.9)
    session.ask(
        ReadCold(
            device=question.device,
            batch_size=question.batch_size,
            precision=question.precision,
            lane=search.chosen(),
            seed=question.seed,
            patience_seconds=question.patience_seconds,
        )
    )


class _Search:
    """What is known so far, and the next races."""

    def __init__(self, session: Session, question: LoadingQuestion) -> None:
        self.session, self.question = session, question
        few = question.num_cores < FEW_CORES
        self.window, self.num_rounds = (0.25 if few else 0.2), 3
        self.races: list[dict[Lane, float]] = []
        self.doubt = 0.0
        """By how much turns of one setting differed in the last race, as a share."""
        self.most = self.fill_cores = 0
        self.step: LaneRate
        self.parts: dict[int, LaneRate] = {}
        self.law: LoaderLaw | None = None

    def measure_parts(self) -> None:
        """The device alone, then the loader alone with 0, 1 and as many workers as there are cores."""
        self.session.progress("the step alone", 0.1)
        self.step = self._ask("step", (INLINE,), num_rounds=3)[INLINE]
        self.most = self._most_workers(WORKER_BYTES)
        self.session.progress("the loader alone", 0.2)
        counts = {min(1, self.most), min(self.question.num_cores, self.most)} - {0}
        # Workers first: what kills one of them would kill the training process, and tell less.
        lanes = [Lane(num_workers=num) for num in [*sorted(counts), 0]]
        rates = self._ask("load", tuple(lanes), num_rounds=2)
        self.parts = {lane.num_workers: rate for lane, rate in rates.items() if rate.outcome == "measured"}
        workers = {num: rate for num, rate in self.parts.items() if num}
        if 1 not in workers:
            self.most = 0
            return
        self.most = self._most_workers(max(rate.worker_private_bytes for rate in workers.values()))
        self.fill_cores = self._filling_cores(workers[max(workers)])
        self.law = fit_loader_law({num: rate.samples_per_second for num, rate in workers.items()}, self._ceiling())

    def _filling_cores(self, rate: LaneRate) -> int:
        """Workers that keep every core busy: those that mostly wait, as for storage, may be many."""
        busy = rate.worker_cpu_seconds / (rate.median_seconds * rate.lane.num_workers)
        return int(self.question.num_cores / min(max(busy, 1e-3), 1.0)) + 1

    def _most_workers(self, worker_bytes: int) -> int:
        question = self.question
        shm = None if question.shm_bytes is None else question.shm_bytes / question.num_devices
        most = most_workers_in_memory(
            question.available_bytes / question.num_devices,
            shm,
            worker_bytes=worker_bytes,
            batch_bytes=self.step.batch_bytes,
            prefetch_factor=INLINE.prefetch_factor,
        )
        return min(most, MOST_WORKERS)

    def _ceiling(self) -> float:
        """Samples per second at which all cores prepare samples; where the device is the host, they also compute."""
        one, step = self.parts[1], self.step
        computing = step.main_cpu_seconds if self.question.device == "cpu" else 0.0
        seconds = [one.worker_cpu_seconds, one.main_cpu_seconds, computing]
        return core_ceiling(self.question.num_cores, one.samples_per_batch, seconds)

    def race_candidates(self) -> None:
        """No workers, where that is not hopeless; what the law says, and some fewer and more."""
        self.session.progress("loader and step together", 0.4)
        self._race(tuple(Lane(num_workers=num) for num in self._candidates()))

    def _candidates(self) -> list[int]:
        if self.law is None or self.most == 0:
            return [0]
        needed = self.step.samples_per_second
        # Beyond full cores the law only follows the noise of its two counts.
        most = max(1, min(self.most, self.fill_cores))
        by_law = workers_for_devices(self.law, needed, self.question.num_devices, most)
        best = min(needed, self.law.samples_per_second(by_law))
        inline = self.parts[0]
        alone = inline.samples_per_batch / (inline.median_seconds + self.step.median_seconds)
        if alone >= ENOUGH * needed:
            return [0, 1]  # nothing can be gained by workers but the last 2 %
        if self.question.num_devices > 1:
            return [by_law]  # a race of one device would not show what the others take
        starves = self.law.samples_per_second(by_law) < ENOUGH * needed
        base = max(by_law, self.question.num_cores) if starves else by_law
        counts = {by_law // 2, by_law, int(LARGER * base) + 1}
        counts |= {0} if alone >= HOPELESS * best else set()
        least = 0 if 0 in counts and alone >= HOPELESS * best else 1
        return sorted({min(max(num, least), self.most) for num in counts})

    def extend(self) -> None:
        """More workers, as long as the largest count gains."""
        for _ in range(MOST_EXTENSIONS):
            top = max(join_races(self.races), key=lambda lane: lane.num_workers)
            if top.num_workers == 0 or top.num_workers >= self.most or self._is_fed(top) or not self._gains(top):
                return
            more = min(self.most, 2 * top.num_workers)
            self.session.progress(f"{more} workers", 0.55)
            self._race((top, Lane(num_workers=more)))

    def _gains(self, top: Lane) -> bool:
        """Whether it is faster than all others by more than turns of one setting differ."""
        rates = join_races(self.races)
        others = max((rate for lane, rate in rates.items() if lane != top), default=0.0)
        enough = ENOUGH if top.num_workers <= self.fill_cores else LITTLE
        return min(enough, 1 - self.doubt) * rates[top] > others

    def _is_fed(self, lane: Lane) -> bool:
        return join_races(self.races)[lane] >= ENOUGH * self.step.samples_per_second

    def settle(self) -> None:
        """One race of the choice, those that may be better, and the same workers set up otherwise."""
        chosen = self.chosen()
        lanes = (chosen, *self._between(chosen), *self._rivals(chosen), *self._variants(chosen))
        if len(lanes) > 1:
            self.session.progress("checking the choice", 0.75)
            more = 1 if self.question.num_cores < FEW_CORES else 0
            self._keep(self._ask("together", lanes, num_rounds=self.num_rounds + more))

    def _between(self, chosen: Lane) -> list[Lane]:
        """The middle of the fewest workers that are enough and the next fewer, which are not."""
        below = [lane.num_workers for lane in join_races(self.races) if lane.num_workers < chosen.num_workers]
        middle = (max(below, default=0) + chosen.num_workers) // 2
        return [] if middle in (0, chosen.num_workers, *below) else [Lane(num_workers=middle)]

    def _rivals(self, chosen: Lane) -> list[Lane]:
        """The two next best; more workers are none where the device already gets all it eats."""
        rates = join_races(self.races)
        rivals = sorted(rates, key=lambda lane: rates[lane], reverse=True)
        close = [lane for lane in rivals if lane != chosen and rates[lane] >= SETTLED * max(rates.values())]
        return [lane for lane in close if cost(lane) < cost(chosen) or not self._is_fed(chosen)][:2]

    def _variants(self, chosen: Lane) -> list[Lane]:
        if chosen.num_workers == 0:
            return []
        found = []
        if not self._is_fed(chosen) and self._most_workers(WORKER_BYTES) >= 2 * chosen.num_workers:
            found.append(replace(chosen, prefetch_factor=2 * chosen.prefetch_factor))
        if self._prepares_on_many_cores():
            found.append(replace(chosen, blas_threads=None))
        if self.question.device != "cpu":
            found.append(replace(chosen, pin_memory=False))
        return found

    def _prepares_on_many_cores(self) -> bool:
        """Whether threads work on a batch without workers: more core seconds than seconds, or than one thread takes,
        where they get in each other's way."""
        inline, one = self.parts[0], self.parts[1]
        return inline.main_cpu_seconds > MANY_CORES * min(inline.median_seconds, one.worker_cpu_seconds)

    def chosen(self) -> Lane:
        """The cheapest lane within 2 % of the best so far."""
        return pick_cheapest(join_races(self.races), cost=cost)

    def _race(self, lanes: tuple[Lane, ...]) -> None:
        self._keep(self._ask("together", lanes, num_rounds=self.num_rounds))

    def _keep(self, measured: dict[Lane, LaneRate]) -> None:
        failed = [lane.num_workers for lane, rate in measured.items() if rate.outcome != "measured"]
        if failed:
            self.most = max(0, min(failed) - 1)
        rates = {lane: rate.samples_per_second for lane, rate in measured.items() if rate.outcome == "measured"}
        if rates:
            self.races.append(rates)
            self.doubt = statistics.median(measured[lane].spread for lane in rates)
        elif not self.races:
            self._keep(self._ask("together", (INLINE,), num_rounds=self.num_rounds))

    def _ask(self, what: str, lanes: tuple[Lane, ...], num_rounds: int) -> dict[Lane, LaneRate]:
        request = self.question.race(what, lanes, num_rounds=num_rounds, window_seconds=self.window)  # type: ignore[arg-type]
        result = ask_race(self.session, request)
        return {rate.lane: rate for rate in result.lanes}


def cost(lane: Lane) -> tuple[int, int, bool, bool]:
    """What a lane costs: processes first, then batches held, then settings that are not ours."""
    return lane.num_workers, lane.prefetch_factor, lane.blas_threads is None, not lane.pin_memory


def ask_race(session: Session, request: RaceLoaders) -> LoaderRates:
    """The race's rates; errors say at which batch and with which workers."""
    counts = " and ".join(f"{lane.num_workers}" for lane in request.lanes)
    what = "The step on" if request.what == "step" else f"With {counts} workers and"
    try:
        result = session.ask(request)
    except OutOfMemory as error:
        message = f"A batch of {request.batch_size:,} does not fit: {error}. legroom memory finds the largest that does"
        raise OutOfMemory(message, details=error.details) from None
    except JobError as error:
        kept = " What was measured before is kept; --resume goes on from there." if session.logbook.entries else ""
        message = f"{what} batches of {request.batch_size:,}: {error}.{kept}"
        raise type(error)(message, details=error.details, facts=error.facts) from None
    assert isinstance(result, LoaderRates)
    return result
