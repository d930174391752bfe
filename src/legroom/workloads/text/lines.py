"""Lines of text as rows of numbers: millions of words in seconds, since no list holds a line's own."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from legroom.errors import UsageError
from legroom.workloads.readers.files import read_content
from legroom.workloads.text.vocabulary import PAD, UNKNOWN, Tokens, Vocabulary, tokenise

LINE_END = "\0"
CHUNK = 50_000
"""Lines tokenised at once: the words of all of them at once would take gigabytes."""


class Ragged:
    """Rows of numbers, read from the flat array without a copy of it."""

    def __init__(self, flat: npt.NDArray[Any], ends: npt.NDArray[Any]) -> None:
        self.flat, self.ends = flat, ends
        self.starts = np.concatenate([[0], ends])

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """These rows."""
        flat = np.fromiter((number for row in rows for number in row), np.int64)
        return cls(flat, np.cumsum([len(row) for row in rows], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Numbers in each row."""
        return np.diff(self.starts)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "Ragged":
        """The chosen rows.

        >>> Ragged.of([[5], [6, 7], [8]]).select(np.array([True, False, True])).flat.tolist()
        [5, 8]
        """
        lengths = self.lengths
        return Ragged(self.flat[np.repeat(chosen, lengths)], np.cumsum(lengths[chosen]))

    def join(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[Any]:
        """The numbers of these rows, one after another.

        >>> Ragged.of([[5], [6, 7]]).join(np.array([1, 0, 1])).tolist()
        [6, 7, 5, 6, 7]
        """
        lengths = self.lengths[rows]
        before = np.cumsum(lengths) - lengths
        return self.flat[np.repeat(self.starts[rows] - before, lengths) + np.arange(int(lengths.sum()))]

    def padded(self, rows: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
        """These rows side by side, each filled up to the width.

        >>> Ragged.of([[5], [6, 7]]).padded(np.array([1, 0]), 3).tolist()
        [[6, 7, 0], [5, 0, 0]]
        """
        starts, places = self.starts[rows], np.arange(width)
        held = places < (self.starts[rows + 1] - starts)[:, None]
        index = np.minimum(starts[:, None] + places, len(self.flat) - 1)
        return np.where(held, self.flat[index], PAD).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Lines:
    """Each line's words by number, in the order in which words were first seen."""

    types: list[str]
    rows: Ragged

    def counts(self, chosen: npt.NDArray[np.bool_] | None = None) -> Counter[str]:
        """How often each word occurs, in the chosen lines or in all; words that do not are left out."""
        rows = self.rows if chosen is None else self.rows.select(chosen)
        numbers = np.bincount(rows.flat, minlength=len(self.types)).tolist()
        return Counter({word: number for word, number in zip(self.types, numbers, strict=True) if number})

    def encode(self, vocabulary: Vocabulary) -> Ragged:
        """The lines by the vocabulary's numbers."""
        codes = [vocabulary.codes.get(word, (UNKNOWN,)) for word in self.types]
        pieces = Ragged.of(codes)
        before = np.concatenate([[0], np.cumsum(pieces.lengths[self.rows.flat])])
        return Ragged(pieces.join(self.rows.flat), before[self.rows.ends])


def number_lines(lines: Sequence[str], tokens: Tokens) -> Lines:
    """The lines' words, each by a number of its own."""
    index: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    end = index[LINE_END]
    chunks = []
    for start in range(0, len(lines), CHUNK):
        text = "".join(f"{line.replace(LINE_END, ' ')} {LINE_END} " for line in lines[start : start + CHUNK])
        chunks.append(np.fromiter(map(index.__getitem__, tokenise(text, tokens)), np.int32))
    numbers = np.concatenate(chunks) if chunks else np.zeros(0, np.int32)
    is_end = numbers == end
    return Lines(list(index)[1:], Ragged(numbers[~is_end] - 1, np.cumsum(~is_end)[is_end]))


def decode(content: bytes, path: Path) -> str:
    """The bytes as UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{path} is no text in UTF-8: byte {content[error.start]:#04x} in line {line:,}. "
            "Convert it, as in iconv -f latin1 -t utf-8"
        ) from None


def lines_of(text: str) -> list[str]:
    """Lines as editors count them: other characters that Unicode calls line ends stay within a line.

    >>> lines_of("a b\\u2028c\\r\\nd\\n")
    ['a b\\u2028c', 'd']
    """
    return text.removesuffix("\n").replace("\r\n", "\n").split("\n")


def split_tabs(text: str, path: Path) -> tuple[list[str], list[str]]:
    """Source and target of tab-separated lines; columns beyond the second, such as a licence, are left out."""
    sources, targets = [], []
    for number, line in enumerate(lines_of(text), start=1):
        parts = line.split("\t")
        if len(parts) < 2:
            raise UsageError(
                f"{path} has no tab in line {number:,}: {line[:60]!r}. "
                "Write source, tab, target; or give two parallel files with --with source=FILE --with target=FILE"
            )
        sources.append(parts[0])
        targets.append(parts[1])
    return sources, targets


def join_parallel(source: str, target: str, source_path: Path, target_path: Path) -> tuple[list[str], list[str]]:
    """Lines of two files that belong together."""
    sources, targets = lines_of(source), lines_of(target)
    if len(sources) != len(targets):
        raise UsageError(
            f"{source_path} has {len(sources):,} lines and {target_path} {len(targets):,}; "
            "line n of one must translate line n of the other. One of them is truncated, or of another edition"
        )
    return sources, targets


def read_column(path: Path, column: int) -> list[str]:
    """The lines of a text, or one column of a tab-separated one, counted from 1; 0 takes whole lines."""
    if not path.is_file():
        raise UsageError(f"There is no file {str(path)!r}. Name a text: plain, .gz or .zip")
    lines = lines_of(decode(read_content(path), path))
    if not column:
        return lines
    parts = [line.split("\t") for line in lines]
    short = next((number for number, part in enumerate(parts, start=1) if len(part) < column), None)
    if short is not None:
        raise UsageError(f"{path} has no column {column} in line {short:,}. Columns are separated by tabs")
    return [part[column - 1] for part in parts]
