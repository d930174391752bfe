"""Batches of samples of like length, as a `Job.loader`: fixed in samples, or in padded places."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Sampler

from legroom.job import Batch, Settings
from legroom.training.data.padding import Lengths, padded_lengths

Order = Literal["shuffled", "short-first", "long-first"]


class BucketBatches(Sampler[list[int]]):
    """Indices, a batch at a time; all samples of a batch are padded to the same border.

    `by_places` gives each batch as many samples as fill the places that `batch_size` samples fill on average; else each
    has `batch_size` samples. Each bucket's last batch may be smaller. Of "shuffled" batches the one with the most
    places comes first: a run that would exceed memory does so at once, and a memory probe sees the worst.

    Random numbers are torch's own, so that a resumed run draws the same batches. Where the data has fewer
    samples than one batch there is none.
    """

    def __init__(
        self,
        lengths: Lengths,
        borders: Sequence[int],
        batch_size: int,
        *,
        by_places: bool = False,
        order: Order = "shuffled",
    ) -> None:
        padded = padded_lengths(lengths, borders)
        places = batch_size * float(padded.mean()) if by_places else 0.0
        enough = len(padded) >= batch_size
        self.order = order
        self.buckets: list[tuple[int, int, npt.NDArray[np.integer]]] = []
        """Border, samples of a batch, and the samples of each bucket."""
        for border in sorted(set(padded.tolist())) if enough else []:
            size = max(1, int(places // border)) if by_places else batch_size
            self.buckets.append((border, size, np.flatnonzero(padded == border)))

    def __len__(self) -> int:
        return sum(-(-len(samples) // size) for _, size, samples in self.buckets)

    def __iter__(self) -> Iterator[list[int]]:
        if self.order == "shuffled" and self.buckets:
            return iter(self._shuffled())
        buckets = self.buckets if self.order == "short-first" else self.buckets[::-1]
        return (batch for _, size, samples in buckets for batch in _split(samples, size))

    def _shuffled(self) -> list[list[int]]:
        drawn = []
        for border, size, samples in self.buckets:
            mixed = samples[torch.randperm(len(samples)).numpy()]
            drawn += [(border * len(batch), batch) for batch in _split(mixed, size)]
        batches = [drawn[place] for place in torch.randperm(len(drawn)).tolist()]
        fullest = max(range(len(batches)), key=lambda place: batches[place][0])
        batches.insert(0, batches.pop(fullest))
        return [batch for _, batch in batches]


def _split(samples: npt.NDArray[np.integer], size: int) -> Iterator[list[int]]:
    return (samples[start : start + size].tolist() for start in range(0, len(samples), size))


def bucket_loader(dataset: Any, batches: BucketBatches, collate: Any, settings: Settings) -> DataLoader[Batch]:
    """The data set's samples in those batches, prepared by the settings' workers."""
    parallel = settings.num_workers > 0
    return DataLoader(
        dataset,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=settings.num_workers,
        prefetch_factor=settings.prefetch_factor if parallel else None,
        persistent_workers=parallel,
    )
