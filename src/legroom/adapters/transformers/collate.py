"""Makes batches as the Trainer does: its default collators, and samples without what no model takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from legroom.job import Batch


def make_collate(collator: Any, tokenizer: Any, only_known: bool) -> Callable[[list[Any]], Batch]:
    """The user's collator, or the one the Trainer would choose."""
    if collator is None:
        from transformers import DataCollatorWithPadding, default_data_collator

        collator = default_data_collator if tokenizer is None else DataCollatorWithPadding(tokenizer)
    chosen: Callable[[list[Any]], Batch] = WithoutText(collator) if only_known else collator
    return chosen


@dataclass(frozen=True, slots=True)
class WithoutText:
    """Drops raw text from samples, which the Trainer does by the model's signature and collators cannot stack.

    A class, not a closure, so that loader workers that start anew can unpickle it.
    """

    collator: Callable[[list[Any]], Batch]

    def __call__(self, samples: list[Any]) -> Batch:
        return self.collator([_without_text(sample) for sample in samples])


def _without_text(sample: Any) -> Any:
    if not isinstance(sample, Mapping):
        return sample
    return {name: value for name, value in sample.items() if not _is_text(value)}


def _is_text(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 0 and _is_text(value[0])
    return isinstance(value, str | Mapping)
