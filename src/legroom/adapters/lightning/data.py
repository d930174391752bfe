"""Reads from a user's data loaders what legroom needs to make its own: data set, collate function, sizes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from legroom.adapters.lightning.package import base_of, overrides
from legroom.errors import JobRaised
from legroom.job import Batch, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One data set as the user loads it today."""

    dataset: Any
    loader: Any = None
    """The DataLoader it came in; None for a bare data set."""

    @property
    def collate(self) -> Callable[[list[Any]], Batch] | None:
        return None if self.loader is None else self.loader.collate_fn

    @property
    def batch_size(self) -> int | None:
        return None if self.loader is None else self.loader.batch_size

    @property
    def num_workers(self) -> int:
        return 0 if self.loader is None else self.loader.num_workers

    @property
    def prefetch_factor(self) -> int:
        return (self.loader and self.loader.prefetch_factor) or Settings().prefetch_factor

    @property
    def num_samples(self) -> int | None:
        return len(self.dataset) if hasattr(self.dataset, "__len__") else None

    @property
    def special_sampler(self) -> Any:
        """A sampler other than in order or shuffled, which legroom's own loader would lose."""
        if self.loader is None or isinstance(self.dataset, IterableDataset):
            return None
        return None if isinstance(self.loader.sampler, RandomSampler | SequentialSampler) else self.loader.sampler


def open_hooks(hooks: Any, sized: bool = True) -> tuple[Source, Source | None]:
    """Training and validation data of a data module, or of a module that has its own loaders."""
    base = base_of(hooks, "data()", "LightningDataModule", "LightningModule")
    if not overrides(hooks, "train_dataloader", base):
        raise JobRaised(
            f"{type(hooks).__name__} has no train_dataloader; legroom needs data to train on. "
            "Pass data=, or train_data=, to from_lightning"
        )
    hooks.prepare_data()
    hooks.setup("fit")
    train = open_loader(hooks.train_dataloader(), "train_dataloader()", sized)
    if not overrides(hooks, "val_dataloader", base):
        return train, None
    return train, open_loader(hooks.val_dataloader(), "val_dataloader()", sized)


def open_loader(made: Any, name: str, sized: bool = True) -> Source:
    """The data set behind a loader, or a bare data set; sized: refuse a loader whose batches we cannot resize."""
    while isinstance(made, list | tuple) and len(made) == 1:
        made = made[0]
    if isinstance(made, list | tuple | Mapping) or type(made).__name__ == "CombinedLoader":
        raise JobRaised(
            f"{name} returned several loaders; legroom measures one. "
            "Pass the data set that matters as from_lightning(train_data=..., valid_data=...)"
        )
    if not isinstance(made, DataLoader):
        return Source(dataset=made)
    if sized and made.batch_size is None:  # torch forgets the size where a batch_sampler is given
        raise JobRaised(
            f"{name} lays out its own batches (a batch_sampler, or batch_size=None), so legroom cannot try other "
            "sizes. Pass from_lightning(loader=(dataset, settings) -> batches of settings.batch_size)"
        )
    return Source(dataset=made.dataset, loader=made)


def rebuild_loaders(
    train: Source, valid: Source | None, collate: Callable[[list[Any]], Batch] | None
) -> Callable[[Any, Settings], Iterable[Batch]] | None:
    """The user's loaders at other sizes, where a sampler or a second collate function would else be lost."""
    sources = [train] if valid is None else [train, valid]
    one_collate = collate is not None or all(source.collate == train.collate for source in sources)
    if one_collate and all(source.special_sampler is None for source in sources):
        return None

    def loader(dataset: Any, settings: Settings) -> DataLoader[Any]:
        source = next((one for one in sources if one.dataset is dataset), train)
        sampler = source.special_sampler if source.dataset is dataset else None
        return DataLoader(
            dataset,
            batch_size=settings.batch_size,
            sampler=sampler,
            shuffle=sampler is None and source is train and not isinstance(dataset, IterableDataset),
            num_workers=settings.num_workers,
            prefetch_factor=settings.prefetch_factor if settings.num_workers else None,
            collate_fn=collate or source.collate,
        )

    return loader
