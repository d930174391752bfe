"""What tests run on ranks: functions that a rank calls with its arguments, its job and its place."""

import os
import time
from dataclasses import replace
from pathlib import Path

import carried_state
import convnet
import iterable
import plain
import token_counts
import torch
from torch import distributed

from legroom.child.built_job import BuiltJob
from legroom.errors import LegroomError
from legroom.job_address import JobAddress
from legroom.questions.train.child_ranks import train_rank
from legroom.training.loop import Run
from legroom.training.ranks import ONE_RANK
from legroom.training.records import Train
from legroom.training.several_ranks import SeveralRanks


def add(arguments, built, rank):
    total = torch.tensor([float(rank.number + arguments["start"])], device=rank.device)
    distributed.all_reduce(total)
    built.beat("adding", 0.5)
    return {
        "rank": rank.number,
        "total": total.item(),
        "backend": distributed.get_backend(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def misbehave(arguments, built, rank):
    if rank.number == arguments["rank"]:
        match arguments["how"]:
            case "raises":
                raise ValueError("no luck today")
            case "hangs":
                time.sleep(600)
    distributed.barrier()


def linger(arguments, built, rank):
    (Path(arguments["folder"]) / f"{rank.number}.pid").write_text(str(os.getpid()))
    time.sleep(600)


def train_jobs(arguments, built, rank):
    """What came of each job, trained as `legroom train` has its ranks do it; or the error it ends with."""
    found = []
    for job, request in arguments["runs"]:
        try:
            found.append(train_rank({"request": request}, BuiltJob(JobAddress(text=job)), rank))
        except LegroomError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def train_cases(arguments, built, rank):
    """Losses and evaluations of each case, trained by these ranks together; or the error it ends with."""
    found = []
    for case in arguments["cases"]:
        words = {name: case.get(name, False) for name in ("shard", "find_unused_parameters")}
        ranks = SeveralRanks(rank.number, rank.num_ranks, rank.device, **words)
        found.append(train_case(case, ranks))
    return found


def train_case(case, ranks=ONE_RANK):
    job = JOBS[case["job"]]()
    kept = {"folder": case["folder"], "resume": case["resume"]} if "folder" in case and ranks.number == 0 else {}
    device, num = str(getattr(ranks, "device", "cpu")), case["num_steps"]
    identity = {"settings": {**case["settings"], "num_devices": ranks.num_ranks}} if kept else {}
    request = Train(
        device=device, settings=case["settings"], num_steps=num, evaluate_steps=10, identity=identity, **kept
    )
    train_data = job.train_data()
    if case.get("unequal"):
        train_data = torch.utils.data.Subset(train_data, range(100 - ranks.number))
    losses = []
    try:
        if ranks.num_ranks > 1:
            ranks.refuse_unequal("training data", len(train_data) if hasattr(train_data, "__len__") else None)
        run = Run(job, request, train_data, job.valid_data(), ranks=ranks)
        run.recorder.write = lambda line: losses.extend(line.get("losses", []))
        quiet = count_quiet_passes(run.trainer.update.wrapped) if case.get("tells_wire") and ranks.num_ranks > 1 else []
        trained = run.go()
    except LegroomError as error:
        return f"{type(error).__name__}: {error}"
    evaluations = [(found.loss, found.score) for found in trained.evaluations]
    found = {"losses": losses, "evaluations": evaluations, "num_samples": trained.num_samples}
    told = case.get("tells_wire") and ranks.num_ranks > 1
    return {**found, "wire": wire_of(run.trainer.update.wrapped, quiet)} if told else found


def count_quiet_passes(wrapped):
    """Notes every pass that speaks to no other rank."""
    passes, no_sync = [], wrapped.no_sync
    wrapped.no_sync = lambda: passes.append(1) or no_sync()
    return passes


def wire_of(wrapped, quiet):
    """How torch was told to speak to other ranks."""
    told = wrapped._get_ddp_logging_data()
    return {
        "broadcast_buffers": bool(told["broadcast_buffers"]),
        "bucket_cap_mb": told["bucket_cap_bytes"] / 2**20,
        "quiet_passes": len(quiet),
    }


def adam():
    """The plain job with an optimizer that has a state."""
    return replace(plain.job(), optimizer=lambda model, rate: torch.optim.AdamW(model.parameters(), rate))


def double():
    """The plain job in float64."""
    job = plain.job()

    def widened(make):
        data = make()
        return torch.utils.data.TensorDataset(data.tensors[0].double(), data.tensors[1])

    return replace(
        job,
        model=lambda: plain.make_model().double(),
        train_data=lambda: widened(job.train_data),
        valid_data=lambda: widened(job.valid_data),
    )


def unused():
    """The plain job with a layer that no loss uses."""

    def make_model():
        model = plain.make_model()
        model[0].spare = torch.nn.Linear(3, 3)
        return model

    return replace(plain.job(), model=make_model)


def dealt():
    """Token counts, batched by a loader of the job's own that shuffles by itself; the last batch is short."""
    job = token_counts.job()

    def loader(dataset, settings):
        return torch.utils.data.DataLoader(dataset, settings.batch_size, shuffle=True, collate_fn=token_counts.pad)

    return replace(job, loader=loader, collate=None, baseline=replace(job.baseline, batch_size=12))


JOBS = {
    "plain": plain.job,
    "adam": adam,
    "double": double,
    "unused": unused,
    "dealt": dealt,
    "token_counts": token_counts.job,
    "iterable": iterable.job,
    "carried_state": carried_state.job,
    "convnet": convnet.job,
}
