"""Streams whose other end may go while a run goes on: what is then said there is lost, and the run is not."""

import errno
import os
import sys
from typing import Any, TextIO, cast

GONE = (errno.EIO, errno.EPIPE)
"""What writing gives where a terminal was closed, or a pipe has no reader."""


class Lasting:
    """A stream that takes whatever is written, though nobody hear it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text; where the other end is gone, it and all that follows go nowhere."""
        try:
            return self.stream.write(text)
        except OSError as error:
            self._let_go(error)
            return len(text)

    def flush(self) -> None:
        """Write what is kept back."""
        try:
            self.stream.flush()
        except OSError as error:
            self._let_go(error)

    def _let_go(self, error: OSError) -> None:
        if error.errno not in GONE:
            raise error
        # What the stream keeps back would be tried again as Python ends, which then has a code of its own: 120.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def outlast_terminal() -> None:
    """Let this process write on where its terminal is gone."""
    sys.stdout, sys.stderr = (cast(TextIO, Lasting(stream)) for stream in (sys.stdout, sys.stderr))
