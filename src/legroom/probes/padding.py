"""How much of a batch is padding: the same samples collated at random, by length, and up to a budget of bytes."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from legroom.probes.batches import BatchSource, sample_bytes
from legroom.probes.bench import Bench
from legroom.records import MeasurePadding, PaddingSeen
from legroom.training.batch import num_bytes

NUM_BATCHES = 16
"""Batches of each kind; where the data set is smaller, as many as it gives."""
MAX_SAMPLES = 4096


def measure_padding(request: MeasurePadding, bench: Bench) -> PaddingSeen:
    """Collate the same samples in three ways and add up the bytes."""
    source, size = bench.train, request.batch_size
    positions = _draw(source, size, request.seed)
    by_length = sorted(positions, key={position: length for length, position in source.sizes}.__getitem__)
    shuffled = _bytes(source, _split(positions, size))
    room = shuffled / -(-len(positions) // size)
    return PaddingSeen(
        num_samples=len(positions),
        sample_bytes=sum(sample_bytes(source.sample(position)) for position in positions),
        shuffled_bytes=shuffled,
        bucketed_bytes=_bytes(source, _split(by_length, size)),
        budget_bytes=_bytes(source, _fill(source, by_length, room)),
    )


def _draw(source: BatchSource, batch_size: int, seed: int) -> list[int]:
    """Positions of whole batches, in random order; samples repeat where the data set is small."""
    known = [position for _, position in source.sizes]
    num_samples = batch_size * max(1, min(NUM_BATCHES, MAX_SAMPLES // batch_size))
    return random.Random(seed).choices(known, k=num_samples)


def _split(positions: Sequence[int], batch_size: int) -> Iterator[Sequence[int]]:
    return (positions[start : start + batch_size] for start in range(0, len(positions), batch_size))


def _fill(source: BatchSource, by_length: Sequence[int], room_bytes: float) -> Iterator[list[int]]:
    """Batches of neighbours by length, each filled until its longest sample times its samples reach the room."""
    batch: list[int] = []
    for position in by_length:
        longest = sample_bytes(source.sample(position))
        if batch and longest * (len(batch) + 1) > room_bytes:
            yield batch
            batch = []
        batch.append(position)
    yield batch


def _bytes(source: BatchSource, batches: Iterable[Sequence[int]]) -> int:
    return sum(num_bytes(_collate(source, batch)) for batch in batches)


def _collate(source: BatchSource, positions: Sequence[int]) -> Any:
    return source.collate([source.sample(position) for position in positions])
