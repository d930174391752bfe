"""Running text as numbers, by words or by characters, laid out in columns, and the job of a language model on it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.utils.data import Dataset

from legroom.errors import UsageError
from legroom.job import Batch, Job, Score, Settings
from legroom.workloads.models.language_model import mean_loss, total_loss
from legroom.workloads.readers.cache import Prepared
from legroom.workloads.text.chance import unigram_loss
from legroom.workloads.text.lines import number_lines
from legroom.workloads.text.vocabulary import SPECIAL, Cut, Tokens, keep, narrow, number

LINE_END = 0
"""A text has no padding, so that number ends its lines."""
JUDGED_SHARE = 0.05
"""Of a text that has no validation part, this share at its end judges."""
OWN_TEXT = "Leave text out to read the default text"

Sized = Callable[[int, int], Callable[[], nn.Module]]
"""(width, depth) -> model factory."""


class Words(Dataset[torch.Tensor]):
    """A text as the numbers of its words, in order."""

    def __init__(self, words: torch.Tensor, *, to_the_end: bool = False) -> None:
        self.words = words
        self.to_the_end = to_the_end
        """Whether the last, shorter window counts: it does for a score, but training steps should weigh the same."""

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.words[index]

    def part(self, fraction: float) -> "Words":
        """Its beginning: words drawn at random would be no text."""
        return Words(self.words[: max(1, round(fraction * len(self.words)))], to_the_end=self.to_the_end)


class Columns:
    """Batches of one pass over the text: `window` rows of words, and the word that follows each.

    The text is cut into `batch_size` columns of equal length; the few words that fill no row are left out. Columns
    too short for one window give no batch. `first` is true where the text begins anew, `row` is how far down it is.

    >>> batch = next(iter(Columns(Words(torch.arange(10)), batch_size=2, window=3)))
    >>> batch["words"].tolist(), batch["next"].tolist(), batch["first"], batch["row"]
    ([[0, 5], [1, 6], [2, 7]], [[1, 6], [2, 7], [3, 8]], True, 0)
    """

    def __init__(self, dataset: Words, batch_size: int, window: int) -> None:
        num_rows = len(dataset) // batch_size
        self.text = dataset.words[: num_rows * batch_size].view(batch_size, num_rows).T.contiguous()
        last = num_rows - 1  # the last row has none that follows
        stop = last if dataset.to_the_end and last >= window else last - window + 1
        self.starts = range(0, stop, window)
        self.window = window

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Batch]:
        for start in self.starts:
            # Long only now: a text of bytes takes an eighth of the memory.
            rows: Any = self.text[start : start + self.window + 1].long()
            yield {"words": rows[:-1], "next": rows[1:], "first": start == 0, "row": start}


def language_model_job(
    read: Callable[[str], torch.Tensor],
    sized: Sized,
    size: tuple[int, int],
    *,
    window: int,
    solver: Callable[..., torch.optim.Optimizer],
    finish: Callable[[float], float],
    chance: float | None,
    baseline: Settings,
    notes: Sequence[str],
) -> Job:
    """A model of that width and depth on the parts "train" and "valid", judged by what `finish` makes of its loss."""
    width, depth = size
    if window < 1:
        raise UsageError(f"sequence={window}; it must be at least 1")
    return Job(
        model=sized(width, depth),
        train_data=lambda: Words(read("train")),
        valid_data=lambda: Words(read("valid"), to_the_end=True),
        loader=lambda dataset, settings: Columns(dataset, settings.batch_size, window),
        loss=mean_loss,
        optimizer=lambda model, rate: solver(model.parameters(), rate),
        score=Score(total_loss, goal="min", finish=finish, chance=chance),
        resize={"width": lambda other: sized(other, depth), "depth": lambda other: sized(width, other)},
        baseline=baseline,
        notes=tuple(notes),
    )


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
    return _prepared([make_words(length, num_codes) for length in lengths], num_codes)


def make_words(num_words: int, num_types: int) -> npt.NDArray[np.int64]:
    """A stand-in for text: frequent and rare words as in language (Zipf), every second half foretold."""
    partner = np.random.default_rng(0).permutation(num_types)
    rng = np.random.default_rng(num_words)
    shares = 1 / np.arange(1, num_types + 1)
    words = rng.choice(num_types, num_words, p=shares / shares.sum())
    before, after = words[0 : num_words - 1 : 2], words[1::2]
    foretold = rng.random(len(after)) < 0.5
    after[foretold] = partner[before[foretold]]
    return words


def _prepared(texts: Sequence[Any], num_codes: int) -> Prepared:
    train, valid = texts
    facts = {"num_codes": num_codes, "unigram_loss": unigram_loss(train, valid, num_codes)}
    return Prepared(arrays={"train": narrow(train, num_codes), "valid": narrow(valid, num_codes)}, facts=facts)
