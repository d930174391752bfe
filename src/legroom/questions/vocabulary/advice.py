"""How large is the vocabulary of a text, by threshold or merges, and what does its output layer cost?"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from legroom.errors import UsageError
from legroom.questions.base import Answer
from legroom.workloads.text.lines import Lines
from legroom.workloads.text.vocabulary import SPECIAL, learn_pieces

By = Literal["min-frequency", "common-limit", "merges"]
"""What decides which words a vocabulary holds: a least count, a largest (common-word elimination), or merges."""
WAYS = get_args(By)
NUM_POINTS = 12
MERGES = (0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyAnswer(Answer):
    """Sizes of a vocabulary over thresholds or merges, and what each costs."""

    by: By
    num_words: int
    """Different words of the text."""
    num_tokens: int
    num_lines: int
    num_left_out: int
    """Lines longer than the limit."""
    num_cells: int
    batch_size: int
    points: list[dict[str, Any]]


def advise_vocabulary(
    lines: Lines, *, by: By, max_length: int, num_cells: int, batch_size: int, file: str, machine: str
) -> VocabularyAnswer:
    """The points of figure 5 of the study, with the parameters and bytes of each."""
    short = lines.rows.lengths <= max_length
    kept = Lines(lines.types, lines.rows.select(short))
    counts = kept.counts()
    if not counts:
        raise UsageError(f"{file} has no words in lines of at most {max_length}. Raise --max-length, or name another")
    points = _by_merges(kept) if by == "merges" else _by_threshold(kept, by)
    for point in points:
        size = point["vocabulary_size"]
        point["output_parameters"] = output_parameters(num_cells, size)
        point["output_bytes"] = output_bytes(size, point["length"], batch_size)
    return VocabularyAnswer(
        job=file,
        machine=machine,
        seconds=0.0,
        by=by,
        num_words=len(counts),
        num_tokens=len(kept.rows.flat),
        num_lines=int(short.sum()),
        num_left_out=int((~short).sum()),
        num_cells=num_cells,
        batch_size=batch_size,
        points=points,
    )


def _by_threshold(lines: Lines, by: By) -> list[dict[str, Any]]:
    """A word that is cut becomes the unknown one, so lines keep their length."""
    counts = np.array(list(lines.counts().values()))
    length, total = int(lines.rows.lengths.max()), counts.sum()
    points = []
    for threshold in thresholds_for(counts):
        known = counts >= threshold if by == "min-frequency" else counts <= threshold
        share = 1 - float(counts[known].sum() / total)
        size = int(known.sum())
        points.append({"at": threshold, "vocabulary_size": size, "length": length, "unknown_share": share})
    return points


def _by_merges(lines: Lines) -> list[dict[str, Any]]:
    """More merges, more pieces and shorter lines; up to where no two pieces are left to join."""
    counts = lines.counts()
    points: list[dict[str, Any]] = []
    for num_merges in MERGES:
        learned = learn_pieces(counts, num_merges)
        size = learned.num_codes - len(SPECIAL)
        if points and size == points[-1]["vocabulary_size"]:
            break
        length = int(lines.encode(learned).lengths.max())
        points.append({"at": num_merges, "vocabulary_size": size, "length": length, "unknown_share": 0.0})
    return points


def thresholds_for(counts: npt.NDArray[np.integer], num_points: int = NUM_POINTS) -> list[int]:
    """Thresholds from 1 to the largest count, evenly spaced in the logarithm, as figure 5 of the study needs.

    >>> thresholds_for(np.array([50, 7, 7, 1]), 4)
    [1, 4, 14, 50]
    """
    return sorted({round(value) for value in np.geomspace(1, int(counts.max()), num_points).tolist()})


def output_parameters(num_cells: int, num_words: int) -> int:
    """Parameters of the layer that names the word: (cells + 1) * (V + 1), the 1s being the bias and the padding.

    >>> output_parameters(100, 10_000)  # "can reach to 1M"
    1010101
    """
    return (num_cells + 1) * (num_words + 1)


def output_bytes(num_words: int, length: int, batch_size: int, element_bytes: int = 4) -> int:
    """Bytes of the word scores of one batch: V * length * B numbers.

    >>> output_bytes(10_000, 100, 512)
    2048000000
    """
    return num_words * length * batch_size * element_bytes
