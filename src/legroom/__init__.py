"""legroom finds the room a PyTorch training run has. Importing it does not import torch."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

from legroom.job import Job, Score, Settings
from legroom.job_address import JobAddress, load_job

if TYPE_CHECKING:
    from legroom.api import jobs, loading, machine, memory, plan, speed, train

__all__ = [
    "Job",
    "JobAddress",
    "Score",
    "Settings",
    "__version__",
    "jobs",
    "load_job",
    "loading",
    "machine",
    "memory",
    "plan",
    "speed",
    "train",
]


def __getattr__(name: str) -> Any:
    """A question's function, imported only now: all questions take 0.4 s, which each child and command would pay."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from legroom import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
