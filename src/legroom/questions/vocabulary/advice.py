"""How large is the vocabulary of a text, by threshold or merges, and what does its output layer cost?"""

from collections.abc import Callable
from typing import Any

import numpy as np

from legroom.errors import UsageError
from legroom.questions.vocabulary.answer import By, VocabularyAnswer
from legroom.questions.vocabulary.law import (
    output_bytes,
    output_parameters,
    size_by_common_limit,
    size_by_min_frequency,
    thresholds_for,
)
from legroom.workloads.text.lines import Lines
from legroom.workloads.text.vocabulary import SPECIAL

CUTS: dict[str, Callable[[Any, int], int]] = {
    "min-frequency": size_by_min_frequency,
    "common-limit": size_by_common_limit,
}
MERGES = (0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


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
        points.append(
            {"at": threshold, "vocabulary_size": CUTS[by](counts, threshold), "length": length, "unknown_share": share}
        )
    return points


def _by_merges(lines: Lines) -> list[dict[str, Any]]:
    """More merges, more pieces and shorter lines; up to where no two pieces are left to join."""
    from legroom.workloads.text.vocabulary import learn_pieces

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
