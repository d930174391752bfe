"""The device alone and the loader alone: what they say about workers before any runs with the step."""

from legroom.laws.loading import WORKER_BYTES, LoaderLaw, core_ceiling, fit_loader_law, most_workers_in_memory
from legroom.questions.loading.races import INLINE, Races
from legroom.questions.loading.records import Lane, LaneRate

CANNOT = 0.8
"""A count cannot be enough where that share of the best would be more than its workers' rates added up."""
MANY_CORES = 1.25


class Parts:
    """Measured once: the step, and the loader with 0, 1 and as many workers as there are cores."""

    def __init__(self, races: Races) -> None:
        self.question = races.question
        races.session.progress("the step alone", 0.1)
        self.step = races.ask("step", (INLINE,), num_rounds=3).lanes[0]
        races.session.progress("the loader alone", 0.2)
        most = min(races.most_workers, self.most_in_memory(WORKER_BYTES))
        counts = {min(1, most), min(self.question.num_cores, most)} - {0}
        # Workers first: what kills one of them would kill the training process, and tell less.
        lanes = tuple(Lane(num_workers=num) for num in [*sorted(counts), 0])
        rates = races.ask("load", lanes, num_rounds=2 if races.is_few else 1)
        measured = {rate.lane.num_workers: rate for rate in rates.lanes if rate.outcome == "measured"}
        self.inline = measured.pop(0)
        self.workers: dict[int, LaneRate] = measured if 1 in measured else {}
        """By their number; empty where not even one can run."""
        private = max((rate.worker_private_bytes for rate in self.workers.values()), default=0)
        races.most_workers = min(races.most_workers, self.most_in_memory(private)) if self.workers else 0

    def most_in_memory(self, worker_bytes: int) -> int:
        """Workers for each device that host memory and /dev/shm hold."""
        return most_workers_in_memory(
            self.question.available_bytes,
            self.question.shm_bytes,
            worker_bytes=worker_bytes,
            batch_bytes=self.step.batch_bytes,
            prefetch_factor=INLINE.prefetch_factor,
            num_devices=self.question.num_devices,
        )

    @property
    def law(self) -> LoaderLaw:
        """Of the loader, through the counts that ran alone, on cores that also compute or launch the step."""
        return fit_loader_law({num: rate.samples_per_second for num, rate in self.workers.items()}, self._ceiling())

    def _ceiling(self) -> float:
        """Samples per second at which all cores prepare samples, take batches and compute or launch the step."""
        one = self.workers[1]
        seconds = [one.worker_cpu_seconds, one.main_cpu_seconds, self.step.main_cpu_seconds]
        return core_ceiling(self.question.num_cores, one.samples_per_batch, seconds)

    @property
    def num_filling_cores(self) -> int:
        """Workers that keep every core busy: those that mostly wait, as for storage, may be many.

        Workers that get in each other's way seem to wait, so the count that waits least tells.
        """
        shares = [rate.worker_cpu_seconds / (rate.median_seconds * num) for num, rate in self.workers.items()]
        busy = min(max(*shares, 1e-3), 1.0)
        if self.question.device == "cpu":
            return int(self.question.num_cores / busy) + 1  # while it computes, the step takes the cores from them
        return max(1, round((self.question.num_cores - self._training_share()) / busy))

    def _training_share(self) -> float:
        """Of one core: what the training process takes to launch steps and take batches, at full rate."""
        one = self.workers[1]
        seconds = self.step.main_cpu_seconds + one.main_cpu_seconds
        return min(1.0, seconds * min(self.needed, self._ceiling()) / one.samples_per_batch)

    @property
    def eaten(self) -> float:
        """Samples per second that the device eats."""
        return self.step.samples_per_batch / self._step_seconds

    @property
    def needed(self) -> float:
        """What the device eats; beside a GPU, the training process has to take each batch from a worker first."""
        if self.question.device == "cpu":
            return self.eaten
        taking = min(rate.main_thread_seconds for rate in self.workers.values())
        return self.step.samples_per_batch / (self._step_seconds + taking)

    @property
    def _step_seconds(self) -> float:
        """Of the step alone. Beside a GPU by the fastest turn: what differs is the host that launches, and after a slow
        moment of it too few workers would seem enough."""
        return self.step.median_seconds if self.question.device == "cpu" else min(self.step.batch_seconds)

    @property
    def without_workers(self) -> float:
        """Samples per second where the training process prepares each batch itself."""
        return self.inline.samples_per_batch / (self.inline.median_seconds + self.step.median_seconds)

    def can_reach(self, best: float, num_workers: int) -> bool:
        """Whether so many could be about as fast as the best, if none got in another's way."""
        each = max(rate.samples_per_second / num for num, rate in self.workers.items())
        return num_workers * each >= CANNOT * best

    @property
    def prepares_on_many_cores(self) -> bool:
        """Whether threads work on a batch without workers: more core seconds than seconds, or than one thread takes,
        where they get in each other's way."""
        one_thread = self.workers[1].worker_cpu_seconds
        return self.inline.main_cpu_seconds > MANY_CORES * min(self.inline.median_seconds, one_thread)
