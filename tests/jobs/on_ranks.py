"""What tests run on ranks: functions that a rank calls with its arguments, its job and its place."""

import os
import signal
import time
from pathlib import Path

import torch
from torch import distributed


def add(arguments, built, rank):
    total = torch.tensor([float(rank.number + arguments["start"])])
    distributed.all_reduce(total)
    built.beat("adding", 0.5)
    return {"rank": rank.number, "total": total.item(), "threads": os.environ.get("OMP_NUM_THREADS")}


def misbehave(arguments, built, rank):
    if rank.number == arguments["rank"] and rank.num_restarts == 0:
        match arguments["how"]:
            case "raises":
                raise ValueError("no luck today")
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hangs":
                time.sleep(600)
    distributed.barrier()
    return rank.num_restarts


def linger(arguments, built, rank):
    (Path(arguments["folder"]) / f"{rank.number}.pid").write_text(str(os.getpid()))
    time.sleep(600)
