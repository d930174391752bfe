"""Whether a job's steps fit under a cap: births and deaths given to a replay of torch's allocator.

`fits` has the meaning it has on a card: five steps and an evaluation, the first two of which may retry. After a retry
free memory has been given back and the heap is laid out anew, so that much more may fit than without one.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from legroom.environments import Allocator as Kind
from legroom.questions.memory.allocator.allocator import Allocator
from legroom.questions.memory.allocator.envelope import Size
from legroom.questions.memory.allocator.ledger import Event

NUM_STEPS, NUM_RETRYING = 5, 2
"""Steps of a proof, and how many of them may retry."""

Moves = list[tuple[int, int]]
"""Storages, each with its bytes at birth and with 0 at death."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What is born and dies at one batch size."""

    first: Moves
    """All until the second step begins, weights included."""
    again: Moves
    """The second step; later ones are its like."""
    after: Moves
    """An evaluation."""

    def needed_bytes(self, kind: Kind = "expandable") -> int:
        """The smallest cap without any retry. Two steps tell: five gave the same largest batch in 26 cells."""
        allocator = Allocator(kind)
        for moves in (self.first, self.again, self.after):
            _play(allocator, moves)
        return allocator.needed_bytes

    def fits(self, kind: Kind, cap_bytes: float) -> bool:
        """Whether nothing is refused twice, nor once from the third step on."""
        allocator = Allocator(kind, cap_bytes)
        if not _play(allocator, self.first):
            return False
        later = repeated(self.first, self.again)
        for step in range(2, NUM_STEPS + 1):
            before = allocator.num_retries
            ran = _play(allocator, self.again if step == 2 else later)
            if not ran or (step > NUM_RETRYING and allocator.num_retries > before):
                return False
        return _play(allocator, self.after)


def steps_at(moments: Sequence[tuple[Event, Size]], second_step: tuple[int, int], batch_size: int) -> Steps:
    """A history's moves at that size; `second_step` says which of its events are those of the second step.

    >>> born = Event(storage=0, num_bytes=100, phase="forward", category="activations")
    >>> steps_at([(born, (20.0, 10.0))], (1, 1), 4).first
    [(0, 60)]
    """
    start, stop = second_step
    sizes = (fixed + slope * batch_size for _, (fixed, slope) in moments)
    moves = [
        (event.storage, 0 if event.num_bytes is None else max(0, int(size)))
        for (event, _), size in zip(moments, sizes, strict=True)
    ]
    return Steps(first=moves[:start], again=moves[start:stop], after=moves[stop:])


def repeated(first: Moves, again: Moves) -> Moves:
    """The second step as later ones are: what it buries of the first is, in them, its own of the step before.

    Where gradients live until the next step begins, as with `zero_grad(); backward(); step()`, each of the first is
    followed by one of as many bytes that outlives the second.

    >>> repeated([(0, 8)], [(0, 0), (1, 90), (2, 8), (1, 0)])
    [(2, 0), (1, 90), (2, 8), (1, 0)]
    """
    bytes_before = {storage: num_bytes for storage, num_bytes in first if num_bytes}
    born = {storage: num_bytes for storage, num_bytes in again if num_bytes}
    buried = {storage for storage, num_bytes in again if not num_bytes}
    heirs: dict[int, deque[int]] = defaultdict(deque)
    for storage, num_bytes in born.items():
        if storage not in buried:
            heirs[num_bytes].append(storage)

    def heir(storage: int) -> int:
        waiting = heirs[bytes_before.get(storage, 0)]
        return waiting.popleft() if storage not in born and waiting else storage

    return [(storage if num_bytes else heir(storage), num_bytes) for storage, num_bytes in again]


def _play(allocator: Allocator, moves: Iterable[tuple[int, int]]) -> bool:
    """Whether all of it was granted. What is born again in a repeated step replaces its like of the step before."""
    for storage, num_bytes in moves:
        allocator.give(storage)
        if num_bytes and not allocator.take(storage, num_bytes):
            return False
    return True
