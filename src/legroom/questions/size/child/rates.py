"""Rates of each parameter by how it grows with the width, so that a rate found at one width holds at others.

G. Yang et al., Tensor Programs V: Tuning Large Neural Networks via Zero-Shot Hyperparameter Transfer (2022), table 3,
with r the width over that of the base:

    parameter grows            Adam      SGD
    in both directions         1 / r     1
    in what it reads alone     1 / r     1 / r      (the output)
    in what it gives alone     1         r          (the input, and every vector)

Initial weights stay as the job makes them.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

Shapes = Mapping[str, tuple[int, ...]]


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Of each parameter."""
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def scale_rates(optimizer: Any, model: nn.Module, base: Shapes) -> Any:
    """The optimizer with each group split by how its parameters grow, before it has made an update."""
    adaptive = not isinstance(optimizer, torch.optim.SGD)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    factors = {
        id(parameter): _factor(tuple(parameter.shape), base.get(name), adaptive, is_table=id(parameter) in tables)
        for name, parameter in model.named_parameters()
    }
    groups = []
    for group in optimizer.param_groups:
        for factor in sorted({factors.get(id(parameter), 1.0) for parameter in group["params"]}):
            chosen = [parameter for parameter in group["params"] if factors.get(id(parameter), 1.0) == factor]
            groups.append({**group, "params": chosen, "lr": group["lr"] * factor})
    optimizer.param_groups = groups
    return optimizer


def _factor(shape: tuple[int, ...], base: tuple[int, ...] | None, adaptive: bool, *, is_table: bool) -> float:
    """On the rate.

    >>> _factor((64, 64), (16, 16), True, is_table=False), _factor((10, 64), (10, 16), True, is_table=False)
    (0.25, 0.25)
    >>> _factor((64,), (16,), True, is_table=False), _factor((64,), (16,), False, is_table=False)
    (1.0, 4.0)
    """
    if base is None or len(base) != len(shape) or not shape:
        return 1.0
    gives, reads = shape[0] / base[0], (shape[1] / base[1] if len(shape) > 1 else 1.0)
    if is_table:  # rows are words, and what is read of one is its column
        gives, reads = reads, 1.0
    if reads == 1:
        return 1.0 if adaptive else gives
    return 1 / reads if adaptive or gives == 1 else 1.0
