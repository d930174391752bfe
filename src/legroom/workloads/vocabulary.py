"""Words of a text, and the vocabulary that a cut leaves of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from legroom.errors import UsageError

UNKNOWN = 1
SPECIAL = ("<pad>", "<unk>")
MARKS = r"!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n" + "«»“”…–—"  # noqa: RUF001
"""Keras' Tokenizer drops all but the last seven, which are typography's."""
MARK = re.compile(f"([{MARKS}])")
WORD = re.compile(rf"[^{MARKS}\s]+")

Tokens = Literal["words", "marks", "spaces"]
TOKENS = get_args(Tokens)


def tokenise(text: str, tokens: Tokens) -> list[str]:
    """Its tokens: lower-case words; words and marks; or what spaces separate.

    >>> tokenise("L'été, peut-être.", "words"), tokenise("Va, va !", "marks"), tokenise("The <unk> .", "spaces")
    (["l'été", 'peut', 'être'], ['va', ',', 'va', '!'], ['The', '<unk>', '.'])
    """
    if tokens == "spaces":
        return text.split()
    if tokens == "words":
        return WORD.findall(text.lower())
    return MARK.sub(r" \1 ", text.lower()).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Which words a vocabulary keeps; the others become <unk>."""

    min_frequency: int = 1
    """Words seen fewer times are cut."""
    common_limit: int = 0
    """Words seen more often are cut: common-word elimination. 0 cuts none."""
    num_words: int = 0
    """Only the most frequent so many are kept. 0 keeps all."""


def keep(counts: Mapping[str, int], cut: Cut, what: str) -> list[str]:
    """The words the cut leaves, the most frequent first; `what` names the text where nothing is left."""
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    limit = cut.common_limit or float("inf")
    kept = [word for word in ordered if cut.min_frequency <= counts[word] <= limit and word not in SPECIAL]
    if not kept:
        raise UsageError(_nothing_left(counts, ordered, cut, what))
    return kept[: cut.num_words or None]


def _nothing_left(counts: Mapping[str, int], ordered: Sequence[str], cut: Cut, what: str) -> str:
    if not ordered:
        return f"{what} has no words. Give a text with some"
    most, least = counts[ordered[0]], counts[ordered[-1]]
    limit = f" and common_limit={cut.common_limit}" if cut.common_limit else ""
    return (
        f"min_frequency={cut.min_frequency}{limit} leave no word of {what}: "
        f"its words occur {least:,} to {most:,} times. Choose thresholds within that"
    )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The numbers of words: one each, or one for each piece."""

    codes: Mapping[str, Sequence[int]]
    num_codes: int
    """Padding and the unknown included."""


def number(words: Sequence[str]) -> Vocabulary:
    """Each word its own number, after padding and the unknown."""
    codes = {word: (place,) for place, word in enumerate(words, start=len(SPECIAL))}
    codes |= {name: (place,) for place, name in enumerate(SPECIAL)}
    return Vocabulary(codes, len(SPECIAL) + len(words))


def narrow(numbers: npt.NDArray[np.integer], num_codes: int) -> npt.NDArray[np.integer]:
    """The numbers in few bytes each: it is what lies on disk and in the page cache."""
    return numbers.astype(np.uint8 if num_codes <= 2**8 else np.int32)
