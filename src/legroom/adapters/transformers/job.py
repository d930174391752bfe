"""Joins a Transformers model, its collator and its arguments into a Job."""

import functools
from collections.abc import Callable
from typing import Any

from legroom.adapters.transformers.arguments import notes_on, read_arguments, read_settings, refuse_unsupported
from legroom.adapters.transformers.model import ModelLoss, make_adamw, make_collate, prepare, refuse_other_optimizers
from legroom.adapters.transformers.schedule import scheduler_of
from legroom.errors import UsageError
from legroom.job import Batch, Job, Score, refuse_built


def from_transformers(
    model: Callable[[], Any],
    *,
    train_data: Callable[[], Any],
    valid_data: Callable[[], Any] | None = None,
    collate: Callable[[list[Any]], Batch] | None = None,
    tokenizer: Any = None,
    arguments: Any = None,
    optimizer: Callable[[Any, float], Any] | None = None,
    score: Score | None = None,
    num_samples: int | None = None,
    sample_size: Callable[[Any, int], float] | None = None,
    collator: None = None,
) -> Job:
    """A Job of a Transformers model.

    model: () -> PreTrainedModel, or any module that takes model(**batch) and returns an output with a loss.
    collate: a data collator; where absent, DataCollatorWithPadding for a tokenizer, default_data_collator without.
    arguments: TrainingArguments, or a dict of its fields; what a dict leaves out is as the Trainer has it.
    optimizer: used in place of the Trainer's AdamW. The rest is as in legroom.Job.
    """
    if collator is not None:
        raise UsageError("from_transformers has no collator=; it is called collate, as in legroom.Job. Write collate=")
    for name, value in (("model", model), ("train_data", train_data), ("valid_data", valid_data)):
        refuse_built("from_transformers", name, value)
    fields = read_arguments(arguments)
    refuse_unsupported(fields)
    if optimizer is None:
        refuse_other_optimizers(fields)
    only_known = fields["remove_unused_columns"]
    baseline = read_settings(fields, lambda: _count(train_data, num_samples))
    return Job(
        model=lambda: prepare(model(), fields),
        train_data=train_data,
        valid_data=valid_data,
        loss=ModelLoss(only_known),
        optimizer=optimizer or functools.partial(make_adamw, fields=fields),
        scheduler=scheduler_of(fields),
        score=score,
        baseline=baseline,
        collate=make_collate(collate, tokenizer, only_known),
        num_samples=num_samples,
        sample_size=sample_size,
        notes=notes_on(fields, baseline),
    )


def _count(train_data: Callable[[], Any], num_samples: int | None) -> int | None:
    if num_samples is not None:
        return num_samples
    dataset = train_data()
    return len(dataset) if hasattr(dataset, "__len__") else None
