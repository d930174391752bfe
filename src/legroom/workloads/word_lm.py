"""The word-level language model of a study of model size: 2 LSTMs, the 10,000 most frequent words, sequences of 80."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Settings
from legroom.workloads.models.language_model import LanguageModel
from legroom.workloads.readers.cache import Prepared, load_or_make
from legroom.workloads.readers.files import SYNTHETIC, find_file, own_file, read_content
from legroom.workloads.readers.published import PUBLISHED
from legroom.workloads.text.lines import decode, lines_of
from legroom.workloads.text.running_text import JUDGED_SHARE, OWN_TEXT, language_model_job, make_text, number_words
from legroom.workloads.text.vocabulary import Tokens

MEMBER_BYTES = {"train": 10_797_148, "valid": 1_121_681, "test": 1_256_449}
NUM_TOKENS = (2_088_628, 217_646)
"""Words of training and validation with one end a line, as published."""
ZIP_BYTES = 4_458_331
PUBLISHED_AT = PUBLISHED["wikitext-2"].at
SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for WikiText-2: random words of which every second often follows from the one "
    "before, so scores say nothing about text."
)
SPREAD = 0.05
"""Parameters start uniform between minus and plus this, as Zaremba et al. 2014 start LSTMs of 650."""
LISTED = {
    "parameters": {"": 14_452_496},
    "sized_by": "text hidden layers words",
    "data": {"": "wikitext-2"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "",
    text: str = "",
    evaluate: Literal["valid", "test"] = "valid",
    hidden: int = 512,
    layers: int = 2,
    words: int = 10_000,
    sequence: int = 80,
    dropout: float = 0.0,
    tokens: Literal["words", "marks", "spaces"] = "spaces",
) -> Job:
    """WikiText-2 or any text, a word-level language model of 2 LSTMs, judged by perplexity.

    data: folder of wikitext-2 (default LEGROOM_DATA), or synthetic. text: a file of your own, whose end judges.
    evaluate: valid or test, the part of WikiText-2 that judges. hidden: LSTM units. layers: stacked LSTMs.
    words: the most frequent so many are known. sequence: words of an update. dropout: between layers.
    tokens: spaces, or words or marks, which tokenise text that nobody has.
    """
    if words < 3:
        raise UsageError(f"words={words}; <unk>, the end of a line and a word make 3 at least")
    prepared = make_text(NUM_TOKENS, words) if data == SYNTHETIC else read(data, text, evaluate, words, tokens)
    num_codes = prepared.facts["num_codes"]

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: LanguageModel(num_codes, hidden, num_layers, dropout=dropout, spread=SPREAD)

    return language_model_job(
        lambda part: torch.from_numpy(prepared.arrays[part]),
        sized,
        (hidden, layers),
        window=sequence,
        solver=torch.optim.Adam,
        finish=math.exp,
        chance=math.exp(prepared.facts["unigram_loss"]),
        # Ardalani et al. 2018, section 2, leave width, batch and rate of this model open: batch and rate are those
        # they give for the character model.
        baseline=Settings(batch_size=128, learning_rate=1e-3, num_epochs=20),
        notes=[SYNTHETIC_NOTE] if data == SYNTHETIC else [],
    )


def read(data: str, text: str, evaluate: str, num_words: int, tokens: Tokens) -> Prepared:
    """The user's text, or WikiText-2, as numbers; made once."""
    if text:
        path = own_file(text, OWN_TEXT)
        contents = [read_content(path)]
    else:
        (names,) = PUBLISHED["wikitext-2"].names
        path = find_file(data, "wikitext-2", names, num_bytes=ZIP_BYTES, published_at=PUBLISHED_AT)
        contents = [_read_part(path, part) for part in ("train", evaluate)]
    options = {"kind": "words", "num_words": num_words, "tokens": tokens}

    def make() -> Prepared:
        parts = [lines_of(decode(content, path)) for content in contents]
        train, valid = parts if len(parts) == 2 else _cut_end(parts[0])
        return number_words(train, valid, num_words, tokens, str(path))

    return load_or_make(contents, options, make)


def _cut_end(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines that train, and the last of them, which judge."""
    num_judging = max(1, round(JUDGED_SHARE * len(lines)))
    return lines[:-num_judging], lines[-num_judging:]


def _read_part(path: Path, part: str) -> bytes:
    """A part, of the size it was published in: text does not tell by itself that its end is missing."""
    name = f"wiki.{part}.tokens"
    content = read_content(path, name, way_forward=f"It has {ZIP_BYTES:,} bytes; get it again from {PUBLISHED_AT}")
    if len(content) != MEMBER_BYTES[part]:
        raise UsageError(
            f"{name} in {path} has {len(content):,} bytes; as published it has {MEMBER_BYTES[part]:,}. "
            f"Get it again from {PUBLISHED_AT}"
        )
    return content
