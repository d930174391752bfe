"""A folder is written by one process at a time, and left as it was found where nothing was written."""

import contextlib
import os
from pathlib import Path
from types import TracebackType

from legroom.errors import UsageError

LOCK_NAME = "logbook.lock"


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
