"""Every way legroom can fail, each with the exit code its command returns.

    LegroomError
    ├── UsageError            2   wrong words, paths, options, folders: nothing was run
    │   └── CannotWrite           a file could not be written, as on a full disk; what was written before is kept
    ├── JobError              1   the user's code failed
    │   ├── JobRaised             it raised an exception
    │   ├── JobCrashed            its process ended by itself (a signal, os._exit)
    │   ├── JobHung               it said nothing for longer than the limit
    │   ├── OutOfMemory           it needed more memory than there is
    │   └── Diverged              its loss stopped being a number
    └── NothingMeasured       3   the question has no answer here
        └── DoesNotFit            not even the smallest batch fits the budget

A message says what we saw, what we need and what to do.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class LegroomError(Exception):
    """Base of all errors a caller may want to catch."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, details: str = "", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details
        """What only a person hunting the cause wants: a traceback, the last lines the job printed."""
        self.facts = dict(facts or {})
        """What scripts may want to know of it, beside the sentence."""


class UsageError(LegroomError, ValueError):
    """The request itself is wrong; nothing was run."""

    exit_code = 2


class CannotWrite(UsageError):
    """A file of ours could not be written; those written before are whole."""


class JobError(LegroomError):
    """The user's code failed."""


class JobRaised(JobError):
    """The user's code raised an exception, or returned what it should not."""


class JobCrashed(JobError):
    """The process that ran the user's code ended by itself."""


class JobHung(JobError):
    """The user's code did not finish a step within the limit."""


class OutOfMemory(JobError):
    """The user's code needed more memory than there is."""


class Diverged(JobError):
    """The loss of a training run stopped being a finite number."""


class NothingMeasured(LegroomError):
    """The question cannot be answered on this machine."""

    exit_code = 3


class DoesNotFit(NothingMeasured):
    """Not even the smallest batch fits the budget."""


def error_named(name: str) -> type[LegroomError]:
    """The class of that name, for errors that crossed a process border."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, LegroomError) else JobRaised
