"""Sentence pairs: found, read, cut to a length and a vocabulary, split, kept in the cache, and padded by batch."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from legroom.errors import UsageError
from legroom.training.data.padding import bucket_borders, padded_lengths
from legroom.workloads.readers.cache import Prepared, load_or_make
from legroom.workloads.readers.files import VARIABLE, find_file, own_file, read_content
from legroom.workloads.readers.published import PUBLISHED
from legroom.workloads.text.lines import Lines, Ragged, decode, join_parallel, number_lines, split_tabs
from legroom.workloads.text.vocabulary import Cut, Tokens, Vocabulary, keep, learn_pieces, narrow, number

JUDGED_IN = 10
"""One source sentence in so many judges: all pairs of a sentence fall on the same side."""
NUM_SYNTHETIC = 32_037
"""Pairs of the stand-in."""
LENGTHS, NUM_TYPES = (4, 21), 200
"""Of the stand-in: least and most words of a sentence, and different words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """How sentences become numbers."""

    tokens: Tokens
    max_length: int
    """Pairs with a longer side are left out."""
    cut: Cut
    """Of each side's vocabulary."""
    num_merges: int
    """Merges of byte-pair encoding on each side; 0 numbers whole words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFiles:
    """Where sentence pairs lie: one tab-separated file, or two parallel ones."""

    paths: tuple[Path, ...]
    way_forward: str
    """Where a damaged file is had again."""
    member: str = ""
    """Of a zip."""


def find_pairs(data: str, pairs: str, source: str, target: str) -> PairFiles:
    """The files of a published set, or the user's own."""
    if target and not source:
        raise UsageError("target is given without source. Give both, or a tab-separated file as source")
    if source:
        way = f"Leave source out to read the published pairs from {VARIABLE}"
        own = tuple(own_file(word, way) for word in (source, target) if word)
        return PairFiles(paths=own, way_forward="Give a whole file")
    found = PUBLISHED[pairs]
    paths = tuple(
        find_file(data, found.folder, names, num_bytes=num_bytes, published_at=found.at)
        for names, num_bytes in zip(found.names, found.num_bytes, strict=True)
    )
    sizes = zip(found.names, found.num_bytes, strict=True)
    told = "".join(f"; {names[0]} has {size:,} bytes" for names, size in sizes if size)
    return PairFiles(paths=paths, way_forward=f"Get it again from {found.at}{told}", member=found.member)


def prepare_pairs(files: PairFiles, pipeline: Pipeline) -> Prepared:
    """Numbers of both parts and sides, and what is known of them; made once."""
    contents = [read_content(path, files.member, way_forward=files.way_forward) for path in files.paths]
    options = {"kind": "pairs", "num_files": len(files.paths), **asdict(pipeline)}
    return load_or_make(contents, options, lambda: _prepare(files, contents, pipeline))


def _prepare(files: PairFiles, contents: Sequence[bytes], pipeline: Pipeline) -> Prepared:
    texts = [decode(content, path) for content, path in zip(contents, files.paths, strict=True)]
    if len(texts) == 1:
        sources, targets = split_tabs(texts[0], files.paths[0])
    else:
        sources, targets = join_parallel(texts[0], texts[1], *files.paths)
    return number_pairs(sources, targets, pipeline, " and ".join(map(str, files.paths)))


def number_pairs(sources: list[str], targets: list[str], pipeline: Pipeline, what: str) -> Prepared:
    """Split pairs into parts and number them by the vocabulary of the training part; `what` names them in errors."""
    judges = np.array([zlib.crc32(source.encode()) % JUDGED_IN == 0 for source in sources])
    sides = {"source": number_lines(sources, pipeline.tokens), "target": number_lines(targets, pipeline.tokens)}
    coders = {name: _learn(lines, judges, pipeline, f"the {name} side of {what}") for name, lines in sides.items()}
    coded = {name: lines.encode(coders[name]) for name, lines in sides.items()}
    lengths = np.stack([rows.lengths for rows in coded.values()])
    kept = (lengths.min(0) > 0) & (lengths.max(0) <= pipeline.max_length)
    arrays: dict[str, Any] = {}
    for part, chosen in (("train", kept & ~judges), ("valid", kept & judges)):
        if not chosen.any():
            raise UsageError(_none_left(what, part, len(sources), pipeline.max_length))
        for name, rows in coded.items():
            taken = rows.select(chosen)
            arrays[f"{part}_{name}"] = narrow(taken.flat, coders[name].num_codes)
            arrays[f"{part}_{name}_ends"] = taken.ends
    facts = {
        "num_sources": coders["source"].num_codes,
        "num_targets": coders["target"].num_codes,
        "num_left_out": int((~kept).sum()),
    }
    return Prepared(arrays=arrays, facts=facts)


def _learn(lines: Lines, judges: npt.NDArray[np.bool_], pipeline: Pipeline, what: str) -> Vocabulary:
    counts = lines.counts(~judges)
    kept = keep(counts, pipeline.cut, what)
    if not pipeline.num_merges:
        return number(kept)
    return learn_pieces(Counter({word: counts[word] for word in kept}), pipeline.num_merges, words=lines.types)


def _none_left(what: str, part: str, num_pairs: int, max_length: int) -> str:
    purpose = "training" if part == "train" else "validation"
    return (
        f"{what}: none of {num_pairs:,} pairs is left for {purpose}. A tenth of them judges, and both sides must have "
        f"1 to {max_length} words. Give more pairs, or raise max_length"
    )


def make_pairs(pipeline: Pipeline) -> Prepared:
    """A stand-in: random sentences, each word with a translation of its own, neighbours swapped."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, NUM_TYPES + 1)
    lengths = rng.integers(LENGTHS[0], LENGTHS[1] + 1, NUM_SYNTHETIC)
    words = rng.choice(NUM_TYPES, int(lengths.sum()), p=shares / shares.sum())
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
