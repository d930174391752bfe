"""The whole state of a training: copied in memory and put back, or written into a checkpoint."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import nn

from legroom.training.rng import GENERATORS, generator_state, set_generator
from legroom.training.torch_internals import buffers_of

IN_FILES = {
    **{name: name for name in ("model", "optimizer", "scaler", "rates", "progress")},
    "rng": "chance",
    "epoch_rng": "epoch_chance",
}
"""Fields that checkpoints hold, and their names there."""
BOOKKEEPING = frozenset(vars(nn.Module()))
"""Attributes that torch itself keeps on every module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What the updates of a training change. Taken as it is, the next update changes it; `copied` keeps it."""

    model: Mapping[str, Any]
    optimizer: Mapping[str, Any] | None
    """None where the job keeps its optimizers to itself."""
    scaler: Mapping[str, Any]
    rates: Mapping[str, Any]
    progress: Mapping[str, Any]
    """How far it is: the fields of `Progress`, the place in the epoch among them."""
    rng: Mapping[str, Any]
    epoch_rng: Mapping[str, Any]
    """As it was when the epoch began: amid one, data whose order is not ours are read again from there."""
    gradients: Sequence[torch.Tensor | None] = ()
    """Of each parameter: a job's own step may gather them over several updates. Not in checkpoints."""
    attributes: "Sequence[Attributes]" = ()
    """What modules and data sets keep besides. Not in checkpoints."""

    def copied(self) -> "RunState":
        """The same, held apart: on the host, because a GPU that training fills has no room for a second copy."""
        parts = {field.name: copy_to_host(getattr(self, field.name)) for field in fields(self)[:-1]}
        return replace(self, **parts, attributes=[each.copied() for each in self.attributes])

    def to_file(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {name: getattr(self, field) for field, name in IN_FILES.items()}

    @classmethod
    def from_file(cls, content: Mapping[str, Any]) -> "RunState":
        """The state in a checkpoint; the first ones held no rates."""
        return cls(**{field: content.get(name, {}) for field, name in IN_FILES.items()})


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a module or a data set keeps outside of parameters and samples: counters, carried states, generators."""

    owner: dict[str, Any]
    """The dictionary in which they lie."""
    names: frozenset[str]
    """All names there, whatever they stand for: those that come later go again."""
    values: Mapping[str, Any]
    generators: Sequence[tuple[Any, Any]]
    """Each with its state, which is set in place: loaders may hold the same ones."""

    def copied(self) -> "Attributes":
        """The same, held apart, on the devices where they are."""
        return replace(self, values=copy.deepcopy(self.values))

    def restore(self) -> None:
        """Put them back, as they are."""
        for name in set(self.owner) - self.names:
            del self.owner[name]
        self.owner.update(self.values)
        for generator, state in self.generators:
            set_generator(generator, state)


def attributes_of(model: nn.Module, datasets: Iterable[Any]) -> list[Attributes]:
    """Plain attributes of each module, with tensors that are no parameters; of data sets numbers and generators.

    The tensors of a data set are its samples, which training does not change.
    """
    found = [_attributes(vars(dataset), tensors=False) for dataset in datasets if hasattr(dataset, "__dict__")]
    for module in model.modules():
        buffers, saved = buffers_of(module)
        found.append(_attributes(vars(module), tensors=True, other_than=BOOKKEEPING))
        found.append(_attributes(buffers, tensors=True, other_than=saved))
    return found


def _attributes(owner: dict[str, Any], *, tensors: bool, other_than: Iterable[str] = ()) -> Attributes:
    held = {name: value for name, value in owner.items() if name not in other_than}
    return Attributes(
        owner,
        frozenset(owner),
        {name: value for name, value in held.items() if _is_plain(value, tensors)},
        [(value, generator_state(value)) for value in held.values() if isinstance(value, GENERATORS)],
    )


def _is_plain(value: Any, tensors: bool) -> bool:
    if isinstance(value, torch.Tensor):
        # Parameters, and what is computed of them, are torch's to keep: an RNN has a list of its own.
        return tensors and not isinstance(value, nn.Parameter) and not value.requires_grad
    if tensors and isinstance(value, list | tuple | dict):
        return all(_is_plain(part, tensors) for part in (value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, bool | int | float | str)


def copy_to_host(value: Any) -> Any:
    """A nest of mappings, lists and tensors, copied; the tensors into host memory.

    >>> held = {"weight": torch.zeros(2)}
    >>> copy_to_host(held)["weight"].data_ptr() == held["weight"].data_ptr()
    False
    """
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        held = copy.copy(value)  # a state_dict carries the versions of its modules as an attribute
        for key, part in value.items():
            held[key] = copy_to_host(part)
        return held
    if type(value) in (list, tuple):
        return type(value)(copy_to_host(part) for part in value)
    return copy.deepcopy(value)
