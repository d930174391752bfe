"""Weights and optimizer shared out to ranks (FSDP2): each keeps its part of every tensor."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

CONTAINERS = (nn.ModuleList, nn.Sequential)


def shard(whole: nn.Module, device: torch.device, num_ranks: int) -> "list[FSDPModule]":
    """Share out the parameters of a module: those of each block are gathered when it is called, the rest at the start.

    Blocks are the members of its outermost lists and sequences. Returned are all modules that gather, the whole last.
    """
    # Imported here: 0.2 s that ranks which share nothing out should not pay.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (num_ranks,))
    blocks = list(_blocks(whole))
    return [fully_shard(module, mesh=mesh) for module in (*blocks, whole)]


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if not isinstance(child, CONTAINERS):
            yield from _blocks(child)
            continue
        yield from (member for member in child if any(True for _ in member.parameters()))


@contextmanager
def gathered(parts: "list[FSDPModule]") -> Iterator[None]:
    """Have all weights whole on every rank: ranks may then evaluate unequal numbers of batches, by any call."""
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not parts[-1], recurse=False)


def gather(value: Any, *, keep: bool) -> Any:
    """A nest of tensors with each whole again, on the host; all ranks take part, those that do not keep it get None."""
    from torch.distributed.tensor import DTensor

    if isinstance(value, DTensor):
        whole = value.full_tensor()
        return whole.cpu() if keep else None
    if isinstance(value, Mapping):
        return {name: gather(part, keep=keep) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(gather(part, keep=keep) for part in value)
    return value


def split_weights(weights: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """The parts of whole weights that are this rank's."""
    own = model.state_dict()
    return {name: _like(value, own.get(name)) for name, value in weights.items()}


def split_optimizer(state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The parts of an optimizer's whole state that are this rank's: tensors of a parameter's shape go as it does."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    owners = dict(zip(numbers, parameters, strict=True))
    parts = {
        number: {name: _like(value, owners[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return {**state, "state": parts}


def _like(value: Any, own: Any) -> Any:
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(own, DTensor) and isinstance(value, torch.Tensor) and value.shape == own.shape:
        return distribute_tensor(value.to(own.device), own.device_mesh, own.placements)
    return value
