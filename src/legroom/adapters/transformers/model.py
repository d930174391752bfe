"""Runs a Transformers model as the Trainer does: its batches, its loss and what that weighs, its optimizer."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from legroom.errors import JobRaised, UsageError
from legroom.job import Batch

OPTIMIZERS = ("adamw_torch", "adamw_torch_fused")
IGNORED_LABEL = -100


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


def prepare(model: Any, fields: Mapping[str, Any]) -> Any:
    """The model as the Trainer makes it ready: from_pretrained hands it out in evaluation mode."""
    # Transformers 5.2x renamed these fields and the method, and warns where the old names are used.
    new, old = (f"{name}_checkpointing" for name in ("activation", "gradient"))
    if fields.get(new) or fields.get(old):
        enable = getattr(model, f"{new}_enable", None) or getattr(model, f"{old}_enable")
        enable(fields.get(f"{new}_kwargs") or fields.get(f"{old}_kwargs"))
    return model.train()


class ModelLoss:
    """(model, batch) -> the model's own mean loss and the number of labels it was taken over."""

    def __init__(self, only_known: bool) -> None:
        self.only_known = only_known
        self.names: frozenset[str] | None = None

    def __call__(self, model: Any, batch: Batch) -> tuple[torch.Tensor, Any] | torch.Tensor:
        if not isinstance(batch, Mapping):
            raise JobRaised(f"collate returned a {type(batch).__name__}; legroom needs a mapping for model(**batch)")
        output = model(**self._known(model, batch))
        loss = output[0] if isinstance(output, tuple) else getattr(output, "loss", None)
        if loss is None:
            raise JobRaised(
                f"The model returned no loss. It computes one where the batch has labels; this one has: "
                f"{', '.join(map(str, batch))}. Let the data set or collate add 'labels'"
            )
        count = num_labels(model, batch)
        return loss if count is None else (loss, count)

    def _known(self, model: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Without columns the model does not name, which the Trainer drops too."""
        if not self.only_known:
            return dict(batch)
        if self.names is None:  # kept, because a signature takes longer to read than a small model's launch
            self.names = frozenset(inspect.signature(model.forward).parameters)
        known = {name: value for name, value in batch.items() if name in self.names}
        return known or dict(batch)  # a wrapped model names nothing and takes all


def num_labels(model: Any, batch: Mapping[str, Any]) -> torch.Tensor | None:
    """How many tokens the mean was taken over; None where each row has one label."""
    labels = batch.get("labels")
    if not isinstance(labels, torch.Tensor) or labels.dim() < 2 or labels.is_floating_point():
        return None
    return (labels[..., 1:] if _shifts_labels(model) else labels).ne(IGNORED_LABEL).sum()


def _shifts_labels(model: Any) -> bool:
    """A causal language model predicts the next token, so the first label of a row is never used."""
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return False
    return "ForCausalLM" in str(getattr(model, "loss_type", "")) or "LMHeadModel" in type(model).__name__


def make_adamw(model: Any, learning_rate: float, fields: Mapping[str, Any]) -> torch.optim.Optimizer:
    """AdamW as the Trainer makes it: no weight decay on biases and norms."""
    from transformers import Trainer

    # The method reads only the model; calling it on no Trainer keeps its rule the one of the installed version.
    names_decayed: Any = Trainer.get_decay_parameter_names
    decayed = set(names_decayed(None, model))
    groups: dict[bool, list[Any]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name in decayed].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": groups[True], "weight_decay": fields["weight_decay"]},
            {"params": groups[False], "weight_decay": 0.0},
        ],
        lr=learning_rate,
        betas=(fields["adam_beta1"], fields["adam_beta2"]),
        eps=fields["adam_epsilon"],
        fused=_optimizer_name(fields) == "adamw_torch_fused",
    )


def refuse_other_optimizers(fields: Mapping[str, Any]) -> None:
    """Another optimizer needs other memory, so AdamW must not quietly take its place."""
    if _optimizer_name(fields) not in OPTIMIZERS:
        raise UsageError(
            f"TrainingArguments.optim is {_optimizer_name(fields)!r}; legroom makes {' and '.join(OPTIMIZERS)}. "
            "Pass from_transformers(optimizer=(model, learning_rate) -> Optimizer)"
        )


def _optimizer_name(fields: Mapping[str, Any]) -> str:
    return str(getattr(fields["optim"], "value", fields["optim"]))
