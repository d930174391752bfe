"""Sentence pairs as numbers: read from files, cut to a length and a vocabulary, split, and kept in the cache."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from legroom.errors import UsageError
from legroom.workloads.cache import Prepared, load_or_make
from legroom.workloads.lines import Lines, number_lines
from legroom.workloads.reading import decode, join_parallel, read_content, split_tabs
from legroom.workloads.vocabulary import Cut, Tokens, Vocabulary, keep, narrow, number

JUDGED_IN = 10
"""One source sentence in so many judges: all pairs of a sentence fall on the same side."""


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
    from legroom.workloads.bpe import learn_pieces

    return learn_pieces(Counter({word: counts[word] for word in kept}), pipeline.num_merges, words=lines.types)


def _none_left(what: str, part: str, num_pairs: int, max_length: int) -> str:
    purpose = "training" if part == "train" else "validation"
    return (
        f"{what}: none of {num_pairs:,} pairs is left for {purpose}. A tenth of them judges, and both sides must have "
        f"1 to {max_length} words. Give more pairs, or raise max_length"
    )
