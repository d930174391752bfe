"""What models that learned nothing score: the floor that a score should be read against."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from legroom.training.data.padding import padded_lengths
from legroom.workloads.text.pairs import Pairs

BEAM, NUM_FREQUENT, PATIENCE, LOOKED_AT_LETTERS = 4, 12, 3, 4096
"""Spellings kept, letters tried, lengths without a gain, and letters of the texts looked at."""


def constant_accuracies(train: Pairs, valid: Pairs) -> dict[str, float]:
    """Shares of the validation places that one constant answer gets right."""
    num_places = int(padded_lengths(valid.lengths, valid.borders).sum())
    num_words = len(valid.target.flat)
    top_word = np.bincount(train.target.flat, minlength=1).argmax()
    num_top = int((valid.target.flat == top_word).sum())
    return {
        "always padding, unmasked": (num_places - num_words) / num_places,
        "most frequent word, unmasked": num_top / num_places,
        "most frequent word, masked": num_top / num_words,
    }


def chance_accuracy(train: Pairs, valid: Pairs, *, masked: bool) -> float:
    """The best constant answer's share."""
    kind = ", masked" if masked else ", unmasked"
    return max(share for name, share in constant_accuracies(train, valid).items() if name.endswith(kind))


def unigram_loss(train: npt.NDArray[np.integer], valid: npt.NDArray[np.integer], num_codes: int) -> float:
    """Mean of -log p of the validation text, p being the training text's shares with one of each added.

    >>> round(unigram_loss(np.array([0, 0, 1]), np.array([0, 1]), 2), 3)
    0.714
    """
    counts = np.bincount(train, minlength=num_codes) + 1
    told = np.bincount(valid, minlength=num_codes)
    return float(-(told * np.log(counts / counts.sum())).sum() / told.sum())


def constant_error_rate(truths: Sequence[bytes], num_letters: int) -> float:
    """Least character error rate that one spelling, said of all, was found to have; letters are 1 to `num_letters`.

    A beam search: spellings grow by a letter at a time, their tables of edit distances by a row. Of a set with many
    different texts some are looked at, so that it costs about a fifth of a second where texts are sentences.

    >>> words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    >>> round(constant_error_rate([bytes(ord(letter) - 96 for letter in word) for word in words], 26), 3)
    0.7
    """
    texts = _some_of(Counter(truths))
    longest = max(map(len, texts), default=0)
    if not longest:
        return 1.0
    padded = np.array([list(text.ljust(longest, b"\0")) for text in texts], np.uint8)
    ends, weights = np.array([len(text) for text in texts]), np.array(list(texts.values()))
    frequent = np.argsort(-np.bincount(padded.ravel(), minlength=1 + num_letters)[1:])[:NUM_FREQUENT] + 1
    differs = padded != frequent[:, None, None].astype(np.uint8)
    places = np.arange(longest + 1, dtype=np.int16)
    tables = np.broadcast_to(places, (1, len(texts), longest + 1))
    fewest, at_length = int(ends @ weights), 0
    for length in range(1, longest + 1):
        changed = np.minimum(tables[:, None, :, 1:] + 1, tables[:, None, :, :-1] + differs)
        changed = np.concatenate([np.full((*changed.shape[:3], 1), length, np.int16), changed], axis=3)
        grown = (np.minimum.accumulate(changed - places, axis=3) + places).reshape(-1, len(texts), longest + 1)
        errors = grown[:, np.arange(len(texts)), ends] @ weights
        tables = grown[np.argsort(errors, kind="stable")[:BEAM]]
        if errors.min() < fewest:
            fewest, at_length = int(errors.min()), length
        elif length - at_length >= PATIENCE:
            break
    return fewest / int(ends @ weights)


def _some_of(counts: Counter[bytes]) -> dict[bytes, int]:
    """Texts, spread over the set, of so many letters together that they are searched quickly, with their counts."""
    num_letters = sum(map(len, counts))
    every = max(1, num_letters // LOOKED_AT_LETTERS)
    return dict(list(counts.items())[::every])
