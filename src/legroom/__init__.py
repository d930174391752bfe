"""legroom finds the room a PyTorch training run has. Importing it does not import torch."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

from legroom.job import Job as Job
from legroom.job import Score as Score
from legroom.job import Settings as Settings
from legroom.job_address import JobAddress as JobAddress
from legroom.job_address import load_job as load_job
from legroom.questions import QUESTIONS

_FROM_API = ("Run", "jobs", "report", *QUESTIONS)

if TYPE_CHECKING:
    from legroom.api import *  # noqa: F403  with types, and without a second list of the questions
else:  # a type checker would take the words that it can read in this list for all names that there are
    __all__ = ["Job", "JobAddress", "Score", "Settings", "__version__", "load_job", *_FROM_API]


def __getattr__(name: str) -> Any:
    """A question's function, imported only now: all questions take 0.4 s, which each child and command would pay."""
    if name not in _FROM_API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from legroom import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM_API})
