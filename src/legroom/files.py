"""Files: written whole or not at all, with the modes the user's umask gives, and a failure told with its path."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from legroom.errors import CannotWrite, LegroomError

REASONS = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}


def write_atomically(path: Path, text: str) -> None:
    """Write the file under another name and move it into place, so that nobody reads half of it."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the path's place once it is whole on disk; a kill leaves the old one or the new."""
    # One name, not one each time: the folder's lock lets one process write, and what a kill left is overwritten.
    part = path.with_name(f".{path.name}.part")
    with writing(path):
        try:
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)  # on a full disk its bytes are wanted
            raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell what the system refuses as a sentence about that path."""
    try:
        yield
    except LegroomError:
        raise
    except Exception as error:
        refused = _refusal(error)
        if refused is None:
            raise
        why = REASONS.get(refused.errno or 0) or refused.strerror or str(refused)
        raise CannotWrite(f"Cannot write {path}: {why}. Make room there, or name another folder with --out") from error


def _refusal(error: BaseException | None) -> OSError | None:
    """The system's own error, which torch hides behind one of its writer's."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error
