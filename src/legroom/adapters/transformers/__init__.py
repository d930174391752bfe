"""Turns a Transformers model, its collator and its TrainingArguments into a Job, and Settings back into arguments.

    from legroom.adapters.transformers import from_transformers

    def job():
        return from_transformers(make_model, train_data=make_train, tokenizer=tokenizer, arguments={...})

legroom drives the model itself, without a Trainer: the loss is the model's own, weighted by the labels it was taken
over, and the optimizer the Trainer's AdamW with the Trainer's schedule, unless a run names
another rate or schedule.
"""

from legroom.adapters.transformers.arguments import training_arguments
from legroom.adapters.transformers.job import from_transformers

__all__ = ["from_transformers", "training_arguments"]
