"""What the Penn Treebank jobs share: the text, and the job around a model of some size."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Settings
from legroom.workloads.models.language_model import LanguageModel
from legroom.workloads.readers.files import SYNTHETIC, find_file, read_bytes
from legroom.workloads.readers.published import PUBLISHED
from legroom.workloads.text.running_text import language_model_job, make_words

NUM_WORDS = 10_000
"""Word types of the text, <unk> and <eos> among them."""
FILE_BYTES = {"train": 5_101_618, "valid": 399_782, "test": 449_945}
NUM_TOKENS = {"train": 929_589, "valid": 73_760, "test": 82_430}
"""Words of each part with one <eos> a line, as published."""
CHANCE = {"valid": 684.7, "test": 639.8}
"""Perplexity of the training words' shares, as `chance.unigram_loss` tells it of the published files."""
PUBLISHED_AT = PUBLISHED["ptb"].at
SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for the Penn Treebank: random words of which every second often follows from "
    "the one before, so scores say nothing about text."
)


def make_job(
    data: str, evaluate: str, size: tuple[int, int], *, window: int, dropout: float, spread: float, baseline: Settings
) -> Job:
    """LSTMs of Zaremba et al. 2014 (arXiv:1409.2329), units and layers, judged by perplexity on the part `evaluate`.

    An update sees `window` words of each column; parameters start uniform between minus and plus the spread.
    """
    files = {} if data == SYNTHETIC else {part: find_part(data, part) for part in FILE_BYTES}

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: LanguageModel(NUM_WORDS, hidden, num_layers, dropout=dropout, spread=spread)

    def read(part: str) -> torch.Tensor:
        part = part if part == "train" else evaluate
        if files:
            return read_words(files["train"], files[part])
        return torch.from_numpy(make_words(NUM_TOKENS[part], NUM_WORDS))

    return language_model_job(
        read,
        sized,
        size,
        window=window,
        solver=torch.optim.SGD,
        finish=math.exp,
        chance=CHANCE[evaluate] if files else None,
        baseline=baseline,
        notes=() if files else (SYNTHETIC_NOTE,),
    )


def find_part(data: str, part: str) -> Path:
    """The file of a part, of the size it was published in: text does not tell by itself that its end is missing."""
    expected = FILE_BYTES[part]
    path = find_file(data, "ptb", (f"ptb.{part}.txt",), num_bytes=expected, published_at=PUBLISHED_AT)
    found = path.stat().st_size
    if found != expected:
        difference = "truncated" if found < expected else "another text"
        raise UsageError(
            f"{path} has {found:,} bytes; as published it has {expected:,}: it is {difference}. "
            f"Get it again from {PUBLISHED_AT}"
        )
    return path


def read_words(vocabulary_path: Path, path: Path) -> torch.Tensor:
    """The words of a file by number: the most frequent of the vocabulary's file is 0."""
    counts = Counter(_split(vocabulary_path))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ordered) > NUM_WORDS:
        raise UsageError(f"{vocabulary_path} has {len(ordered):,} different words; this job knows {NUM_WORDS:,}")
    numbers = {word: number for number, word in enumerate(ordered)}
    unknown = numbers.get("<unk>", 0)
    return torch.tensor([numbers.get(word, unknown) for word in _split(path)])


def _split(path: Path) -> list[str]:
    try:
        return read_bytes(path).decode().replace("\n", " <eos> ").split()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8. Get it again from {PUBLISHED_AT}") from None
