"""Sentence pairs as a data set, and a stand-in for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset

from legroom.training.data.padding import bucket_borders, padded_lengths
from legroom.workloads.cache import Prepared
from legroom.workloads.parallel import Pipeline, number_pairs
from legroom.workloads.ragged import Ragged

NUM_SYNTHETIC = 32_037
"""Pairs of the stand-in."""
LENGTHS = (4, 21)
NUM_TYPES = 200


class Pairs(Dataset[tuple[torch.Tensor, ...]]):
    """Pairs of sentences. A batch is padded, both sides alike, to the first border that holds its longest sentence."""

    def __init__(self, source: Ragged, target: Ragged, borders: Sequence[int], *, train: bool) -> None:
        self.source, self.target, self.train = source, target, train
        self.borders = list(borders)
        self.lengths = np.maximum(source.lengths, target.lengths)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(side[0] for side in self.__getitems__([index]))

    def __getitems__(self, indices: Sequence[int]) -> tuple[torch.Tensor, ...]:
        rows = np.asarray(indices)
        width = int(padded_lengths(self.lengths[rows].max(), self.borders))
        return tuple(torch.from_numpy(side.padded(rows, width)) for side in (self.source, self.target))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Both parts of a set of pairs, laid out for batches."""

    train: Pairs
    valid: Pairs
    borders: list[int]
    """What batches are padded to."""
    longest: int
    num_sources: int
    """Words of each language, padding and the unknown included."""
    num_targets: int
    num_left_out: int


def make_corpus(prepared: Prepared, num_buckets: int) -> Corpus:
    """The parts with borders that pad least; one bucket pads all sentences alike."""
    sides = {part: (_side(prepared, part, "source"), _side(prepared, part, "target")) for part in ("train", "valid")}
    lengths = {part: np.maximum(source.lengths, target.lengths) for part, (source, target) in sides.items()}
    longest = int(max(lengths["train"].max(), lengths["valid"].max()))
    borders = [*bucket_borders(lengths["train"], num_buckets)[:-1], longest]
    return Corpus(
        train=Pairs(*sides["train"], borders, train=True),
        valid=Pairs(*sides["valid"], borders, train=False),
        borders=borders,
        longest=longest,
        **prepared.facts,
    )


def _side(prepared: Prepared, part: str, side: str) -> Ragged:
    return Ragged(prepared.arrays[f"{part}_{side}"], prepared.arrays[f"{part}_{side}_ends"])


def make_pairs(pipeline: Pipeline) -> Prepared:
    """A stand-in: random sentences, each word with a translation of its own, neighbours swapped."""
    chance = np.random.default_rng(0)
    shares = 1 / np.arange(1, NUM_TYPES + 1)
    lengths = chance.integers(LENGTHS[0], LENGTHS[1] + 1, NUM_SYNTHETIC)
    words = chance.choice(NUM_TYPES, int(lengths.sum()), p=shares / shares.sum())
    sentences = [part.tolist() for part in np.split(words, np.cumsum(lengths)[:-1])]
    sources = [" ".join(f"s{word}" for word in sentence) for sentence in sentences]
    targets = [" ".join(f"t{word}" for word in _swap(sentence)) for sentence in sentences]
    return number_pairs(sources, targets, pipeline, "the stand-in")


def _swap(words: list[int]) -> list[int]:
    """The words of each two places exchanged.

    >>> _swap([1, 2, 3])
    [2, 1, 3]
    """
    return [words[place ^ 1] if place ^ 1 < len(words) else words[place] for place in range(len(words))]
