"""Words of a text, the vocabulary that a cut leaves of them, and pieces of words by byte-pair encoding."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from legroom.errors import UsageError

PAD, UNKNOWN = 0, 1
SPECIAL = ("<pad>", "<unk>")
"""Words that every vocabulary has, and their numbers; the first fills a row up."""
WORD_END = "</w>"
"""Ends the last piece of a word, so that pieces can be joined to words again."""
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


def learn_pieces(counts: Counter[str], num_merges: int, words: Iterable[str] = ()) -> Vocabulary:
    """Byte-pair encoding: characters, then the most frequent neighbours joined, `num_merges` times.

    Sennrich et al. 2016 (arXiv:1508.07909), by the package tokenizers, an optional extra.
    `words` are those to find codes for besides the counted ones; characters that were not counted are unknown.
    """
    learned = _learn(counts, num_merges)
    known = list(counts | Counter(words))
    encoded = learned.encode_batch(known, add_special_tokens=False)
    codes = {word: tuple(code.ids) for word, code in zip(known, encoded, strict=True)}
    return Vocabulary(codes, learned.get_vocab_size())


def _learn(counts: Counter[str], num_merges: int) -> Any:
    try:
        from tokenizers import Tokenizer, models, trainers
    except ModuleNotFoundError:
        raise UsageError(
            "Byte-pair encoding needs the package tokenizers. pip install tokenizers, or leave merges out"
        ) from None
    learned = Tokenizer(models.BPE(unk_token=SPECIAL[1], end_of_word_suffix=WORD_END))
    # Each character has a form within a word and one at its end; what goes beyond these is merges.
    num_letters = len({letter for word in counts for letter in word}) + len({word[-1] for word in counts})
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL) + num_letters + num_merges,
        special_tokens=list(SPECIAL),
        end_of_word_suffix=WORD_END,
        show_progress=False,
    )
    # A list a word: the package takes lists at once, and single words one by one.
    learned.train_from_iterator(([word] * times for word, times in counts.items()), trainer)
    return learned
