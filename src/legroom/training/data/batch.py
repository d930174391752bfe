"""A batch is any nest of tensors: find them, count them, move them."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from legroom.job import Batch


def tensors_of(batch: Batch) -> Iterator[torch.Tensor]:
    """Every tensor in the nest, in order."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors_of(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from tensors_of(value)


def holds_nan(batch: Batch) -> bool:
    """Whether a float in the nest is NaN or infinite; minus infinity is a mask's and will do."""
    # The maximum is NaN where one of them is: one pass, and nothing is kept.
    return any(
        not float(tensor.max()) < math.inf
        for tensor in tensors_of(batch)
        if tensor.is_floating_point() and tensor.numel()
    )


def num_bytes(batch: Batch) -> int:
    """Bytes of all tensors in the nest."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(batch))


def num_rows(batch: Batch) -> int:
    """Length of the first tensor that has one: how many samples, where the job does not say."""
    return next((tensor.shape[0] for tensor in tensors_of(batch) if tensor.dim() > 0), 1)


def move(batch: Batch, device: torch.device) -> Batch:
    """The same nest on the device; what is no tensor stays as it is."""
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch)


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], batch: Batch) -> Any:
    """The same nest with the function applied to every tensor; what is no tensor stays as it is."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named tuple takes its fields one by one
        return type(batch)(*(map_tensors(function, value) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map_tensors(function, value) for value in batch)
    if isinstance(batch, dict):
        return {key: map_tensors(function, value) for key, value in batch.items()}
    if isinstance(batch, Mapping):  # transformers' BatchEncoding and the like are built from one mapping
        return type(batch)({key: map_tensors(function, value) for key, value in batch.items()})  # type: ignore[call-arg]
    return batch
