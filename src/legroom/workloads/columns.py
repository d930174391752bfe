"""One long text, laid out in columns by batch size and read from the top, a window of rows at a time."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Dataset

from legroom.job import Batch


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
