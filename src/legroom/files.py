"""Files: one writer a folder, written whole or not at all, and a failure told with its path."""

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from legroom.errors import CannotWrite, LegroomError, UsageError

LOCK_NAME = "logbook.lock"

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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell what the system refuses to read as a sentence about that path."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"Cannot read {path}: {why}. Make it readable, or name another folder with --out") from None


def _refusal(error: BaseException | None) -> OSError | None:
    """The system's own error, which torch hides behind one of its writer's."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error


class Claim:
    """The folder, made where it was not there, under a lock until it is released."""

    def __init__(self, folder: Path) -> None:
        import filelock

        self.folder = folder
        self._made = [each for each in (folder, *folder.parents) if not each.exists()]
        """Deepest first."""
        self._lock = filelock.FileLock(folder / LOCK_NAME, timeout=0)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError("Permission denied")
            self._lock.acquire()
        except filelock.Timeout:
            raise UsageError(f"Another legroom is writing to {folder}. Wait for it, or name another --out") from None
        except OSError as error:
            self._tidy()
            why = error.strerror or error
            raise UsageError(f"Cannot write to {folder}: {why}. Name another folder with --out") from None

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Let others write to the folder; one that holds nothing goes, with those made above it."""
        with contextlib.suppress(OSError):
            if [path.name for path in self.folder.iterdir()] == [LOCK_NAME]:
                (self.folder / LOCK_NAME).unlink()  # while it is held: afterwards it may be another's
        self._lock.release()
        self._tidy()

    def _tidy(self) -> None:
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()
