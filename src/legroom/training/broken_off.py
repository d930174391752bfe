"""A run that hangs is broken off where it stands, and says where that is."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

OTHERS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<")
"""Where files lie that are not the job's own, besides site-packages."""
FETCH = str(Path("torch", "utils", "data", "_utils", "fetch.py"))


class BrokenOff(BaseException):
    """Raised into a run that was told to end and is stuck: no Exception, which a data set may catch to go on."""


def sample_of(frame: FrameType | None) -> int | None:
    """The index that torch's loader asks the data set for in this process, if it does."""
    # torch 2.13: a loop over `idx`, which has a frame of its own before Python 3.12.
    found = (each.f_locals.get("idx") for each in _outwards(frame) if each.f_code.co_filename.endswith(FETCH))
    return next((index for index in found if isinstance(index, int)), None)


def line_of(frame: FrameType | None) -> str:
    """The innermost line of the job's own files, in brackets; empty where there is none."""
    for each in _outwards(frame):
        name = each.f_code.co_filename
        if not name.startswith(OTHERS) and "site-packages" not in name:
            return f" ({name}, line {each.f_lineno})"
    return ""


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
