"""What stands against a variant before it runs, how long its start may take, and how it is compiled."""

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
import torch.compiler.config

from legroom.clock import monotonic
from legroom.job import Job, Settings
from legroom.training.step import TrainingStep


class TooLong(Exception):
    """The start took longer than allowed."""


def impossible(job: Job, step: TrainingStep, own: Settings, changed: Settings) -> str:
    """Why the change cannot be tried, as a clause; empty where it can."""
    if job.step is not None and (changed.compile or changed.channels_last):
        return "the job has its own step, in which legroom cannot reach the loss"
    if changed.channels_last and not any(parameter.dim() == 4 for parameter in step.model.parameters()):
        return "no weight of the model has four dimensions, as those of convolutions over images have"
    if changed.fused and not own.fused and (why := _why_not_fused(step.optimizer)):
        return why
    return _why_not_compiled(step.device) if changed.compile else ""


def _why_not_fused(optimizer: Any) -> str:
    groups = getattr(optimizer, "param_groups", [])
    if not groups:
        return "the job keeps its optimizers to itself"
    if any("fused" not in group for group in groups):
        return f"{type(optimizer).__name__} has no fused form"
    return "the job's own optimizer is fused already" if all(group["fused"] for group in groups) else ""


def _why_not_compiled(device: torch.device) -> str:
    if device.type == "cuda":
        return "" if importlib.util.find_spec("triton") else "torch.compile needs triton on a GPU, and there is none"
    found = any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name)
    return "" if found else "torch.compile needs a C++ compiler, and neither g++ nor clang++ is there"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooLong in this thread after so many seconds; nothing else here uses the timer of the process."""
    if not hasattr(signal, "setitimer"):  # not on Windows
        yield
        return

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before, started = signal.signal(signal.SIGALRM, give_up), monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as error:  # torch's compiler wraps what is raised amid it
        raise (TooLong() if monotonic() - started >= seconds else error) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def cold(settings: Settings) -> Iterator[None]:
    """Compile as a first run does: kernels that an earlier one left on disk would hide what that takes."""
    if not settings.compile:
        yield
        return
    torch.compiler.reset()
    before, torch.compiler.config.force_disable_caches = torch.compiler.config.force_disable_caches, True
    try:
        yield
    finally:
        torch.compiler.config.force_disable_caches = before


def words_of(error: Exception) -> str:
    """What a variant raised, as a clause."""
    first = (str(error).strip().splitlines() or [""])[0][:200]
    return f"it raised {type(error).__name__}: {first}"
