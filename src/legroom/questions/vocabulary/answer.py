"""The answer of `legroom vocabulary`, with the names scripts rely on."""

from dataclasses import dataclass
from typing import Any, Literal

from legroom.questions.base import Answer

By = Literal["min-frequency", "common-limit", "merges"]
"""What decides which words a vocabulary holds."""


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
