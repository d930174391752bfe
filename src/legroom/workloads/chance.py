"""What models that learned nothing score: the floor that a score should be read against."""

import numpy as np
import numpy.typing as npt

from legroom.laws.padding import padded_lengths
from legroom.workloads.pairs import Pairs
from legroom.workloads.ragged import PAD


def constant_accuracies(train: Pairs, valid: Pairs) -> dict[str, float]:
    """Shares of the validation places that one constant answer gets right."""
    num_places = int(padded_lengths(valid.lengths, valid.borders).sum())
    num_words = len(valid.target.flat)
    num_top = int((valid.target.flat == _top_word(train.target.flat)).sum())
    return {
        "always padding, unmasked": (num_places - num_words) / num_places,
        "most frequent word, unmasked": num_top / num_places,
        "most frequent word, masked": num_top / num_words,
    }


def chance_accuracy(train: Pairs, valid: Pairs, *, masked: bool) -> float:
    """The best constant answer's share."""
    kind = ", masked" if masked else ", unmasked"
    return max(share for name, share in constant_accuracies(train, valid).items() if name.endswith(kind))


def place_accuracies(train: Pairs, valid: Pairs) -> dict[str, float]:
    """Shares right of the answer most frequent at each place in training, all padded to the longest sentence."""
    longest = valid.borders[-1]
    learned, judged = (part.target.padded(np.arange(len(part)), longest) for part in (train, valid))
    any_entry = np.array([np.bincount(column).argmax() for column in learned.T])
    a_word = np.array([_top_word(column) for column in learned.T])
    return {
        "most frequent of each place, unmasked": float((judged == any_entry).mean()),
        "most frequent of each place, masked": float((judged == a_word)[judged != PAD].mean()),
    }


def _top_word(column: npt.NDArray[np.integer]) -> int:
    words = column[column != PAD]
    return int(np.bincount(words).argmax()) if len(words) else PAD


def unigram_loss(train: npt.NDArray[np.integer], valid: npt.NDArray[np.integer], num_codes: int) -> float:
    """Mean of -log p of the validation text, p being the training text's shares with one of each added.

    >>> round(unigram_loss(np.array([0, 0, 1]), np.array([0, 1]), 2), 3)
    0.714
    """
    counts = np.bincount(train, minlength=num_codes) + 1
    told = np.bincount(valid, minlength=num_codes)
    return float(-(told * np.log(counts / counts.sum())).sum() / told.sum())
