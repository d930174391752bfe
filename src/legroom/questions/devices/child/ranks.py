"""Steps of several processes that share each update: with sync, without, and the link alone."""

import copy
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from legroom.child.built_job import BuiltJob
from legroom.child.rank import Rank
from legroom.child.ranks import run_ranks
from legroom.laws.intervals import median_interval
from legroom.questions.devices.child.backward import num_threads
from legroom.questions.devices.child.delay import DelayedLink
from legroom.questions.devices.records import (
    Message,
    RankSteps,
    RanksTimed,
    TimeRanks,
    TimeWrapped,
    WrappedTimed,
)
from legroom.training.data.batch import move
from legroom.training.options import apply_options, make_optimizer
from legroom.training.several_ranks import LossModule
from legroom.training.step import TrainingStep

ENTRY = "legroom.questions.devices.child.ranks:on_rank"
NUM_WARM, NUM_ROUNDS = 3, 7
LEAST_STEPS, MOST_STEPS = 5, 40
"""Of a round, one that is not timed left out."""
MESSAGE_SECONDS, LEAST_MESSAGES, MOST_MESSAGES = 0.03, 3, 30
ARENA_BYTES = 2**26
WRAPPED_SECONDS = 1.5
"""For the repeats in a single rank."""
NO_BYTES = 4
"""Of messages that nobody asks about."""
Times = dict[str, list[float]]


def time_ranks(request: TimeRanks, built: BuiltJob) -> RanksTimed:
    """Start the ranks and join what they timed: a step is as long as that of the slowest."""
    built.forget_model()  # on a GPU it would lie beside the first rank's
    told = run_ranks(
        built.address,
        ENTRY,
        asdict(request),
        num_ranks=request.num_devices,
        device=request.device,
        collective_seconds=request.wait_seconds,
        beat=built.beat,
    )
    return RanksTimed(
        backend=told[0]["backend"],
        messages=[
            Message(
                num_bytes=size,
                seconds=max(rank["messages"][place][0] for rank in told),
                busy_cores=statistics.fmean(rank["messages"][place][1] for rank in told),
            )
            for place, size in enumerate(request.message_bytes)
        ],
        steps=[_join(size, [rank["steps"][place] for rank in told]) for place, size in enumerate(request.batch_sizes)],
    )


def time_wrapped(request: TimeWrapped, built: BuiltJob) -> WrappedTimed:
    """The same steps in a single rank: what sync costs where no byte leaves it."""
    words = {
        each.name: getattr(request, each.name) for each in fields(request) if each.name not in ("kind", "batch_size")
    }
    alone = TimeRanks(
        num_devices=1,
        batch_sizes=[request.batch_size],
        message_bytes=[NO_BYTES],
        bucket_bytes=[NO_BYTES],
        seconds=WRAPPED_SECONDS,
        **words,
    )
    told = time_ranks(alone, built)
    steps = told.steps[0]
    return WrappedTimed(
        backend=told.backend,
        # The less of two medians: what other programs take of a core in some rounds is not sync's.
        exposed_seconds=max(0.0, min(steps.exposed_seconds, steps.sync_seconds - steps.no_sync_seconds)),
        no_sync_seconds=steps.no_sync_seconds,
        sync_seconds=steps.sync_seconds,
        num_repeats=steps.num_repeats,
    )


def _join(batch_size: int, told: Sequence[Mapping[str, Any]]) -> RankSteps:
    """One batch size over all ranks: of each step the slowest rank's seconds, of the steps the median."""
    slowest = {name: [max(each) for each in zip(*(rank[name] for rank in told), strict=True)] for name in MODES}
    middle = {name: statistics.median(seconds) for name, seconds in slowest.items()}
    rounds = [_rounds(slowest["sync"]), _rounds(slowest["no_sync"])]
    exposed = [with_sync - without for with_sync, without in zip(*rounds, strict=True)]
    return RankSteps(
        batch_size=batch_size,
        copies_seconds=middle["copies"],
        no_sync_seconds=middle["no_sync"],
        sync_seconds=middle["sync"],
        buckets_seconds=middle["buckets"],
        exposed_seconds=statistics.median(exposed),
        exposed_range=(min(exposed), max(exposed)),
        sync_range=median_interval(slowest["sync"]),
        num_repeats=len(slowest["sync"]),
        utilisation=[rank["utilisation"] for rank in told if rank["utilisation"] is not None],
        rank_seconds=[statistics.median(rank["copies"]) for rank in told],
    )


MODES = ("copies", "no_sync", "sync", "buckets")


def _rounds(seconds: Sequence[float]) -> list[float]:
    """Medians of each round's steps."""
    each = len(seconds) // NUM_ROUNDS
    return [statistics.median(seconds[start : start + each]) for start in range(0, len(seconds), each)]


def on_rank(arguments: Mapping[str, Any], built: BuiltJob, rank: Rank) -> dict[str, Any]:
    """What one rank timed."""
    request = TimeRanks(**arguments)
    with num_threads(request.num_threads if rank.device.type == "cpu" else None):
        link = TimedLink(request.message_bytes, rank.device, DelayedLink(request.delay_seconds))
        steps = [_time_steps(size, request, built, rank, link) for size in request.batch_sizes]
        return {"backend": distributed.get_backend(), "messages": link.summary(), "steps": steps}


class TimedLink:
    """All-reduces of several sizes, timed between rounds of steps: a link that others use too is as slow for both."""

    def __init__(self, sizes: Sequence[int], device: torch.device, link: DelayedLink) -> None:
        self.device, self.sizes, self.place, self.link = device, sizes, 0, link
        # Gradients that were just made lie in no cache; one tensor that travels again and again would.
        self.arena = torch.ones(max(ARENA_BYTES, 2 * max(sizes)) // 4, device=device)
        self.seconds: list[list[float]] = [[] for _ in sizes]
        self.cores, self.walls = [0.0] * len(sizes), [0.0] * len(sizes)
        self.visit(keep=False)

    def visit(self, *, keep: bool = True) -> None:
        """A few all-reduces of each size; more of the short ones."""
        for place, size in enumerate(self.sizes):
            run = functools.partial(self._all_reduce, max(1, size // 4))
            typical = timed(run, 1, self.device)[0]
            num = _agree(MESSAGE_SECONDS / typical, LEAST_MESSAGES, MOST_MESSAGES, self.device)
            distributed.barrier()
            cores, wall = time.process_time(), time.perf_counter()
            seconds = timed(run, num, self.device)
            if keep:
                self.seconds[place] += seconds
                self.cores[place] += time.process_time() - cores
                self.walls[place] += time.perf_counter() - wall

    def _all_reduce(self, length: int) -> None:
        self.place = 0 if self.place + length > len(self.arena) else self.place
        self.link.all_reduce(self.arena[self.place : self.place + length])
        self.place += length

    def summary(self) -> list[tuple[float, float]]:
        """Of each size: the mean seconds, and the cores that it kept busy here.

        A step waits for several messages, so stalls of single ones, which a median leaves out, are in nearly all steps.
        """
        busy = [cores / wall for cores, wall in zip(self.cores, self.walls, strict=True)]
        return [(_trimmed(each), used) for each, used in zip(self.seconds, busy, strict=True)]


def _time_steps(batch_size: int, request: TimeRanks, built: BuiltJob, rank: Rank, link: TimedLink) -> dict[str, Any]:
    """Rounds of steps as copies, without and with sync, and of the buckets alone, so that drift meets all alike."""
    torch.manual_seed(request.seed + rank.number)
    batch = move(next(built.train.batches(batch_size, "typical")), rank.device)
    alone = built.training_step(rank.device, request.precision, lambda phase: None)
    shared = SharedStep(built, request, rank, link.link)
    buckets = [torch.ones(max(1, size // 4), device=rank.device) for size in request.bucket_bytes]
    runs: dict[str, Callable[[], Any]] = {
        "copies": lambda: alone([batch]),
        "no_sync": lambda: shared(batch, sync=False),
        "sync": lambda: shared(batch, sync=True),
        "buckets": lambda: [link.link.all_reduce(bucket) for bucket in buckets],
    }
    for run in runs.values():
        timed(run, NUM_WARM, rank.device)
    longest = statistics.median(timed(runs["sync"], NUM_WARM, rank.device))
    num = _agree(request.seconds / (NUM_ROUNDS * 3 * longest), LEAST_STEPS, MOST_STEPS, rank.device)
    times: Times = {name: [] for name in runs}
    cores = wall = 0.0
    for _ in range(NUM_ROUNDS):
        for name, run in runs.items():
            seconds, used, took = turn(run, num, rank.device)
            times[name] += seconds
            if name == "sync":
                cores, wall = cores + used, wall + took
        link.visit()
        built.beat(f"{rank.num_ranks} devices, batches of {batch_size}")
    # What the process uses of its cores says nothing of a GPU that works beside it.
    utilisation = min(1.0, cores / wall / request.num_threads) if rank.device.type == "cpu" else None
    return {**times, "utilisation": utilisation}


def turn(run: Callable[[], Any], num: int, device: torch.device) -> tuple[list[float], float, float]:
    """Seconds of so many steps of a kind, and those of its cores and of the clock, after one step that is not timed.

    DistributedDataParallel broadcasts buffers in a step by whether the step before was synchronised.
    """
    timed(run, 1, device)
    distributed.barrier()
    used, began = time.process_time(), time.perf_counter()
    seconds = timed(run, num, device)
    return seconds, time.process_time() - used, time.perf_counter() - began


class SharedStep:
    """The job's step with DistributedDataParallel around its loss, on a copy of the model: hooks stay off the other."""

    def __init__(self, built: BuiltJob, request: TimeRanks, rank: Rank, link: DelayedLink) -> None:
        model = copy.deepcopy(built.model)
        settings = replace(built.job.baseline, precision=request.precision, accumulation_steps=1)
        job = apply_options(built.job, settings)
        assert job.loss is not None
        self.wrapped = DistributedDataParallel(
            LossModule(model, job.loss),
            bucket_cap_mb=request.bucket_cap_mb,
            broadcast_buffers=request.broadcast_buffers,
            find_unused_parameters=request.find_unused,
        )
        link.slow_down(self.wrapped)
        optimizer = make_optimizer(job, model, settings)
        job = replace(job, loss=lambda wrapped, batch: wrapped(batch))
        self.step = TrainingStep(job, self.wrapped, optimizer, settings, rank.device)

    def __call__(self, batch: Any, *, sync: bool) -> Any:
        """One update; without sync each rank keeps its own gradients."""
        with nullcontext() if sync else self.wrapped.no_sync():
            return self.step([batch])


def timed(run: Callable[[], Any], num: int, device: torch.device) -> list[float]:
    """Seconds of each run, to its end."""
    seconds = []
    for _ in range(num):
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return seconds


def _trimmed(seconds: Sequence[float]) -> float:
    """The mean without the slowest tenth."""
    return statistics.fmean(sorted(seconds)[: max(1, round(0.9 * len(seconds)))])


def _agree(wanted: float, least: int, most: int, device: torch.device) -> int:
    """A number of repeats within these bounds, the same on all ranks."""
    number = torch.tensor([min(float(most), max(float(least), wanted))], device=device)
    distributed.all_reduce(number, distributed.ReduceOp.MIN)
    return int(number.item())
