"""A trial on several devices: a process for each, which train one model together."""

import hashlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from legroom.child.built_job import BuiltJob
from legroom.child.rank import Rank
from legroom.child.ranks import THREADS_NAME, Meeting, Ranks, run_ranks, threads_of_rank
from legroom.requests import to_json
from legroom.training.checkpoint import set_aside
from legroom.training.loop import Run
from legroom.training.records import Several, Train, Trained
from legroom.training.several import norm_note
from legroom.training.several_ranks import NORMS, SeveralRanks

ENTRY = "legroom.questions.train.child_ranks:train_rank"


def train_on_ranks(request: Train, built: BuiltJob) -> Trained:
    """Start the ranks and hand on what they come to. A SIGTERM lets them save, report and end."""
    several = Several(**request.several)
    notes = _keep_aside(request)
    found = run_ranks(
        built.address,
        ENTRY,
        {"request": to_json(request)},
        num_ranks=several.num_local,
        device=request.device,
        collective_seconds=several.wait_seconds,
        restarts=several.restarts,
        meeting=_meeting(several, request),
        beat=built.beat,
        on_start=pass_on,
    )
    trained = Trained(**found[0])
    return replace(trained, notes=[*trained.notes, *notes, *_thread_notes(request, several)])


def _keep_aside(request: Train) -> list[str]:
    """Clear the folder before the ranks start: those started anew must find their own checkpoint there, or none."""
    aside = set_aside(Path(request.folder)) if request.folder and not request.resume else None
    return [f"What an earlier run left in this folder is kept in {aside}"] if aside else []


def _thread_notes(request: Train, several: Several) -> list[str]:
    if request.device != "cpu" or THREADS_NAME in os.environ:
        return []
    num_threads = threads_of_rank(several.num_local)
    words = "1 thread" if num_threads == 1 else f"{num_threads} threads"
    return [f"The cores are shared out: each process computes with {words}; OMP_NUM_THREADS would say otherwise"]


def _meeting(several: Several, request: Train) -> Meeting:
    if several.nodes == 1:
        return Meeting()
    # Those that train something else must not be taken for ours. The job's path may differ from machine to machine.
    same = {name: value for name, value in request.identity.items() if name != "job"}
    name = hashlib.sha256(json.dumps(same, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return Meeting(
        num_nodes=several.nodes,
        endpoint=several.rendezvous,
        name=f"legroom-{name}",
        join_seconds=several.wait_seconds,
    )


def pass_on(ranks: Ranks) -> None:
    """Let a SIGTERM to this process tell its ranks to save and report."""
    signal.signal(signal.SIGTERM, lambda number, frame: ranks.tell_to_end())


def train_rank(arguments: dict[str, Any], built: BuiltJob, rank: Rank) -> dict[str, Any]:
    """Train as one of the ranks. The first writes the files; what all come to is the same."""
    request = Train(**arguments["request"])
    several = Several(**request.several)
    request = _request_of(request, rank)
    ranks = SeveralRanks(
        rank.number,
        rank.num_ranks,
        rank.device,
        interrupted=lambda: rank.told.came,
        sync_batch_norm=several.sync_batch_norm,
        find_unused_parameters=several.find_unused_parameters,
        shard=several.shard,
    )
    built.forget_model()  # the run builds its own, from its own seed
    valid = built.valid.dataset if built.job.valid_data is not None else None
    ranks.refuse_unequal("training data", built.train.num_samples)
    run = Run(
        built.job,
        request,
        built.train.dataset,
        valid,
        beat=built.beat,
        interrupted=lambda: ranks.told_to_end,
        ranks=ranks,
    )
    if built.job.loader is not None:
        ranks.refuse_unequal("job's loader", run.trainer.feed.num_batches, "batches for each of them")
    trained = run.go()
    trained.notes.extend([*_norm_notes(run, several), *_short_notes(ranks, run)])
    if rank.num_restarts:
        times = "once" if rank.num_restarts == 1 else f"{rank.num_restarts} times"
        trained.notes.append(f"All processes were started anew {times} after one had failed")
    return to_json(trained)


def _short_notes(ranks: SeveralRanks, run: Run) -> list[str]:
    """Which ranks had less data than others."""
    is_dealt = run.trainer.job.loader is not None
    if not ranks.first_done or (is_dealt and run.trainer.feed.num_batches is not None):  # then it is a batch at most
        return []
    names = f"{'Rank' if len(ranks.first_done) == 1 else 'Ranks'} {', '.join(map(str, ranks.first_done))}"
    ways = ", unless that is one batch of a number that the devices do not divide" if is_dealt else ""
    return [
        f"{names} of {ranks.num_ranks} had no more batches while others had: epochs end there for all, and what the "
        f"others had left was not trained on. Let every rank read all of the data, which legroom shares out{ways}"
    ]


def _norm_notes(run: Run, several: Several) -> list[str]:
    """What BatchNorm sees, where a pass on one device has another batch than the job's own."""
    has_norms = any(isinstance(each, NORMS) for each in run.trainer.model.modules())
    settings, own = run.trainer.settings, run.trainer.job.baseline.batch_size
    return [] if several.sync_batch_norm else norm_note(has_norms, own, settings.batch_size)


def _request_of(request: Train, rank: Rank) -> Train:
    """The run as this rank has it: ranks started anew go on from the checkpoint, and only the first has a folder."""
    request = replace(request, device=str(rank.device), resume=request.resume or rank.num_restarts > 0)
    if rank.number == 0:
        return request
    return replace(request, folder=None, resume=False, tensorboard=False)
