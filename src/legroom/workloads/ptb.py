"""What the Penn Treebank jobs share: the text, a stand-in for it, and the job around a model of some size."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.workloads.carried import LanguageModel, mean_loss, total_loss
from legroom.workloads.columns import Columns, Words
from legroom.workloads.files import SYNTHETIC, find_file, read_bytes
from legroom.workloads.published import PUBLISHED

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A configuration of Zaremba et al. 2014, Recurrent Neural Network Regularization (arXiv:1409.2329)."""

    hidden: int
    """Units of each LSTM, and of a word's embedding."""
    num_layers: int
    window: int
    """Words of each column that one update sees."""
    dropout: float
    spread: float
    """Parameters start uniform between minus and plus this."""


def make_job(data: str, evaluate: str, size: Size, baseline: Settings) -> Job:
    """The job of a size on the text in `data`, judged by its perplexity on the part `evaluate`."""
    files = {} if data == SYNTHETIC else {part: find_part(data, part) for part in FILE_BYTES}

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: LanguageModel(NUM_WORDS, hidden, num_layers, dropout=size.dropout, spread=size.spread)

    def read(part: str) -> torch.Tensor:
        return read_words(files["train"], files[part]) if files else make_words(NUM_TOKENS[part])

    return Job(
        model=sized(size.hidden, size.num_layers),
        train_data=lambda: Words(read("train")),
        valid_data=lambda: Words(read(evaluate), to_the_end=True),
        loader=lambda dataset, settings: Columns(dataset, settings.batch_size, size.window),
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        score=Score(total_loss, goal="min", finish=math.exp, chance=CHANCE[evaluate] if files else None),
        resize={
            "width": lambda width: sized(width, size.num_layers),
            "depth": lambda depth: sized(size.hidden, depth),
        },
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


def make_words(num_words: int, num_types: int = NUM_WORDS) -> torch.Tensor:
    """A stand-in of the text's length: frequent and rare words as in language (Zipf), every second half foretold."""
    partner = np.random.default_rng(0).permutation(num_types)
    chance = np.random.default_rng(num_words)
    shares = 1 / np.arange(1, num_types + 1)
    words = chance.choice(num_types, num_words, p=shares / shares.sum())
    before, after = words[0 : num_words - 1 : 2], words[1::2]
    foretold = chance.random(len(after)) < 0.5
    after[foretold] = partner[before[foretold]]
    return torch.from_numpy(words)
