"""How much of a batch is padding: the same samples collated at random, by length, and up to a budget of bytes."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from legroom.child.batches import BatchSource
from legroom.child.built_job import BuiltJob
from legroom.questions.speed.records import MeasurePadding, PaddingSeen
from legroom.training.data.batch import num_bytes, tensors_of

NUM_BATCHES = 16
"""Batches of each kind; where the data set is smaller, as many as it gives."""
MAX_SAMPLES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Collated:
    """Some samples as one batch."""

    num_bytes: int
    places: list[int]
    """Elements of each tensor."""


def measure_padding(request: MeasurePadding, built: BuiltJob) -> PaddingSeen:
    """Collate the same samples in three ways, and each with itself: what a collation adds, as a mask, is no padding."""
    source, size = built.train, request.batch_size
    positions = _draw(source, size, request.seed)
    by_length = sorted(positions, key={position: length for length, position in source.sizes}.__getitem__)
    # Twice in one batch, as some collations cannot join a single sample.
    alone = {position: _collate(source, [position, position]) for position in set(positions)}
    shuffled = [_collate(source, batch) for batch in _split(positions, size)]
    shuffled_bytes = sum(one.num_bytes for one in shuffled)
    grows = [len(set(places)) > 1 for places in zip(*(one.places for one in alone.values()), strict=False)]
    return PaddingSeen(
        num_samples=len(positions),
        sample_bytes=sum(alone[position].num_bytes for position in positions) // 2,
        shuffled_bytes=shuffled_bytes,
        bucketed_bytes=_bytes(source, _split(by_length, size)),
        budget_bytes=_bytes(source, _fill(alone, by_length, shuffled_bytes / len(shuffled))),
        num_places=_places([alone[position] for position in positions], grows) // 2,
        num_shuffled_places=_places(shuffled, grows),
    )


def _draw(source: BatchSource, batch_size: int, seed: int) -> list[int]:
    """Positions of whole batches, in random order; samples repeat where the data set is small."""
    known = [position for _, position in source.sizes]
    num_samples = batch_size * max(1, min(NUM_BATCHES, MAX_SAMPLES // batch_size))
    return random.Random(seed).choices(known, k=num_samples)


def _split(positions: Sequence[int], batch_size: int) -> Iterator[Sequence[int]]:
    return (positions[start : start + batch_size] for start in range(0, len(positions), batch_size))


def _fill(alone: Mapping[int, Collated], by_length: Sequence[int], room_bytes: float) -> Iterator[list[int]]:
    """Batches of neighbours by length, each filled until its longest sample times its samples reach the room."""
    batch: list[int] = []
    for position in by_length:
        longest = alone[position].num_bytes / 2
        if batch and longest * (len(batch) + 1) > room_bytes:
            yield batch
            batch = []
        batch.append(position)
    yield batch


def _bytes(source: BatchSource, batches: Iterable[Sequence[int]]) -> int:
    return sum(_collate(source, batch).num_bytes for batch in batches)


def _places(batches: Iterable[Collated], grows: Sequence[bool]) -> int:
    """Elements of the tensors that grow with the length of their samples."""
    pairs = (pair for batch in batches for pair in zip(batch.places, grows, strict=False))
    return sum(places for places, is_padded in pairs if is_padded)


def _collate(source: BatchSource, positions: Sequence[int]) -> Collated:
    batch = source.collate([source.sample(position) for position in positions])
    return Collated(num_bytes=num_bytes(batch), places=[tensor.numel() for tensor in tensors_of(batch)])
