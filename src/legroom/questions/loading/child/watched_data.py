"""A data set that says where it is, and rests when told: which index is read, by which worker, what went wrong."""

import json
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.sharedctypes import RawArray
from typing import Any

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from legroom.errors import JobHung

MAX_WORKERS = 1024
LOOK_SECONDS = 0.1
"""How often a resting worker looks whether it may go on, in case it was not woken, and whether its parent is alive.

32 resting workers take 2.5 % of one core for it (2026-11-15, two cores; 0.6 % every 0.5 s)."""
MESSAGE_BYTES = 2048
WORKING, RESTING, LEAVING = range(3)


class Left(Exception):
    """A worker was told to leave before its batch was whole: nobody waits for it."""


class Board:
    """Shared between the training process and its workers: each worker's place, and the first failure."""

    def __init__(self) -> None:
        self.places = RawArray("q", [-1] * (MAX_WORKERS + 1))
        """Index now being read; -1 between batches. The last slot is the training process's own."""
        self.failure = RawArray("c", MESSAGE_BYTES)
        self.state = RawArray("b", [WORKING])
        # Workers wait for a byte that nobody takes. A lock or an event could be held by one that dies.
        self._opened, self._opener = multiprocessing.Pipe(duplex=False)

    def rest(self) -> None:
        """Let every worker stop before its next sample: it neither fills its buffers nor takes a core."""
        if self.state[0] == WORKING:
            if self._opened.poll():
                self._opened.recv_bytes()
            self.state[0] = RESTING

    def go_on(self) -> None:
        """Let the workers work again."""
        self._wake(WORKING)

    def leave(self) -> None:
        """Let every worker drop the batch it is at: finishing it first would take as long as preparing one."""
        self._wake(LEAVING)

    def _wake(self, state: int) -> None:
        was_resting, self.state[0] = self.state[0] == RESTING, state
        if was_resting:
            self._opener.send_bytes(b"go")

    def wait(self) -> None:
        """What a worker does before each sample: rest while others have their turn. It ends with its parent."""
        if self.state[0] == WORKING:
            return
        parent = os.getppid()
        while self.state[0] == RESTING:
            if not self._opened.poll(LOOK_SECONDS) and os.getppid() != parent:
                os._exit(1)
        if self.state[0] == LEAVING:
            raise Left

    def fail(self, index: int, error: BaseException) -> None:
        """Note a failure, so that the training process can tell it without reading tracebacks."""
        if self.failure.value:
            return
        info = get_worker_info()
        text = (str(error).splitlines() or [""])[0][:300]
        note = {"index": index, "worker": info.id if info else None, "error": f"{type(error).__name__}: {text}"}
        self.failure.value = json.dumps(note).encode()[: MESSAGE_BYTES - 1]

    def failed(self) -> dict[str, Any] | None:
        """The first failure: index, worker (None in the training process itself), error."""
        return json.loads(self.failure.value) if self.failure.value else None

    def reading(self, num_workers: int) -> list[tuple[int | None, int]]:
        """(worker, index) of every read under way; worker None is the training process itself."""
        slots = [(worker, self.places[worker]) for worker in range(num_workers)]
        return [place for place in [*slots, (None, self.places[MAX_WORKERS])] if place[1] >= 0]


def slot() -> int:
    """This process's slot on the board."""
    info = get_worker_info()
    return info.id if info else MAX_WORKERS


class Watched(Dataset[Any]):
    """A map-style data set under watch; 0.3 microseconds a sample."""

    def __init__(self, dataset: Any, board: Board) -> None:
        self.dataset, self.board = dataset, board

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        place = slot()
        self.board.wait()
        self.board.places[place] = index
        try:
            return self.dataset[index]
        except JobHung:
            raise
        except Exception as error:
            self.board.fail(index, error)
            raise
        finally:
            self.board.places[place] = -1


class WatchedBatches(Watched):
    """One that hands over whole batches; the first index stands for its batch."""

    def __getitems__(self, indices: list[int]) -> Any:
        place = slot()
        self.board.wait()
        self.board.places[place] = indices[0]
        try:
            return self.dataset.__getitems__(indices)
        except JobHung:
            raise
        except Exception as error:
            self.board.fail(self._culprit(indices), error)
            raise
        finally:
            self.board.places[place] = -1

    def _culprit(self, indices: list[int]) -> int:
        for index in indices:
            try:
                self.dataset[index]
            except Exception:
                return index
        return indices[0]


class WatchedStream(IterableDataset[Any]):
    """An iterable data set under watch; the index is the position in its worker's stream."""

    def __init__(self, dataset: Any, board: Board) -> None:
        self.dataset, self.board = dataset, board

    def __iter__(self) -> Iterator[Any]:
        place, position = slot(), 0
        samples = iter(self.dataset)
        while True:
            self.board.wait()
            self.board.places[place] = position
            try:
                sample = next(samples)
            except StopIteration:
                return
            except JobHung:
                raise
            except Exception as error:
                self.board.fail(position, error)
                raise
            finally:
                self.board.places[place] = -1
            yield sample
            position += 1


def watch(dataset: Any, board: Board) -> Any:
    """The data set under watch."""
    if isinstance(dataset, IterableDataset):
        return WatchedStream(dataset, board)
    return WatchedBatches(dataset, board) if hasattr(dataset, "__getitems__") else Watched(dataset, board)
