"""Lines of text as the numbers of their words: millions of words in seconds, since no list holds a line's own."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from legroom.workloads.ragged import Ragged
from legroom.workloads.vocabulary import UNKNOWN, Tokens, Vocabulary, tokenise

LINE_END = "\0"
CHUNK = 50_000
"""Lines tokenised at once: the words of all of them at once would take gigabytes."""


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
