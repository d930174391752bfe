"""Running text as numbers, by words or by characters, and the job of a language model on it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.workloads.cache import Prepared
from legroom.workloads.carried import mean_loss, total_loss
from legroom.workloads.chance import unigram_loss
from legroom.workloads.columns import Columns, Words
from legroom.workloads.lines import number_lines
from legroom.workloads.ptb import make_words
from legroom.workloads.vocabulary import SPECIAL, Cut, Tokens, keep, narrow, number

LINE_END = 0
"""A text has no padding, so that number ends its lines."""
JUDGED_SHARE = 0.05
"""Of a text that has no validation part, this share at its end judges."""

Sized = Callable[[int, int], Callable[[], nn.Module]]
"""(width, depth) -> model factory."""


def number_words(train: Sequence[str], valid: Sequence[str], num_words: int, tokens: Tokens, what: str) -> Prepared:
    """Lines by word: the most frequent `num_words` of the training lines, <unk> and the end of a line among them."""
    lines = number_lines([*train, *valid], tokens)
    trains = np.arange(len(lines.rows)) < len(train)
    kept = keep(lines.counts(trains), Cut(num_words=num_words - len(SPECIAL)), what)
    rows = lines.encode(number(kept))
    parts = [rows.select(chosen) for chosen in (trains, ~trains)]
    texts = [np.insert(part.flat, part.ends, LINE_END) for part in parts]
    return _prepared(texts, len(SPECIAL) + len(kept))


def number_characters(train: str, valid: str, min_frequency: int, what: str) -> Prepared:
    """Text by character, the most frequent 1; those seen fewer times in the training text are 0."""
    texts = [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) for text in (train, valid)]
    found, counts = np.unique(texts[0], return_counts=True)
    enough = counts >= min_frequency
    if not enough.any():
        most = int(counts.max()) if len(counts) else 0
        raise UsageError(f"min_frequency={min_frequency} leaves no character of {what}: at most {most:,} are alike")
    ordered = found[enough][np.argsort(-counts[enough], kind="stable")]
    table = np.zeros(int(max(text.max(initial=0) for text in texts)) + 1, np.int32)
    table[ordered] = np.arange(1, len(ordered) + 1)
    return _prepared([table[text] for text in texts], len(ordered) + 1)


def make_text(lengths: tuple[int, int], num_codes: int) -> Prepared:
    """A stand-in of those lengths."""
    return _prepared([make_words(length, num_codes).numpy() for length in lengths], num_codes)


def _prepared(texts: Sequence[Any], num_codes: int) -> Prepared:
    train, valid = texts
    facts = {"num_codes": num_codes, "unigram_loss": unigram_loss(train, valid, num_codes)}
    return Prepared(arrays={"train": narrow(train, num_codes), "valid": narrow(valid, num_codes)}, facts=facts)


def split_at_end(pieces: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The pieces that train, and the last of them, which judge."""
    num_judging = max(1, round(JUDGED_SHARE * len(pieces)))
    return pieces[:-num_judging], pieces[-num_judging:]


def own_text(word: str) -> Path:
    """The user's own text."""
    path = Path(word).expanduser()
    if not path.is_file():
        raise UsageError(f"There is no file {word!r}. Leave text out to read the default text")
    return path


def make_text_job(
    prepared: Prepared,
    sized: Sized,
    size: tuple[int, int],
    *,
    window: int,
    finish: Callable[[float], float],
    baseline: Settings,
    notes: Sequence[str],
) -> Job:
    """A language model of that width and depth, judged by what `finish` makes of its loss."""
    width, depth = size
    if window < 1:
        raise UsageError(f"sequence={window}; it must be at least 1")

    def read(part: str) -> Words:
        return Words(torch.from_numpy(prepared.arrays[part]), to_the_end=part == "valid")

    return Job(
        model=sized(width, depth),
        train_data=lambda: read("train"),
        valid_data=lambda: read("valid"),
        loader=lambda dataset, settings: Columns(dataset, settings.batch_size, window),
        loss=mean_loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        score=Score(total_loss, goal="min", finish=finish, chance=finish(prepared.facts["unigram_loss"])),
        resize={"width": lambda other: sized(other, depth), "depth": lambda other: sized(width, other)},
        baseline=baseline,
        notes=tuple(notes),
    )
