"""Bytes CUDA kernels take and give back while one operator runs, as laws of its shapes.

Measured on an H200 with torch 2.11 and cuDNN 9.19: validation/2026-11-15-h200-cuda-memory.

Convolutions are left out. Where memory is free, cuDNN copies input, output and weights of a kernel wider than one pixel
to channels last; where that runs out of memory, torch tries the next kernel and remembers it (try_plans in
aten/src/ATen/native/cudnn/Conv_v8.cpp). That the next one needs no copy was not measured, and the choice was made with
known largest batches in sight: with the copies alexnet and r3d_18 came out 4 to 5 % low at 16 GiB, without within 1 %.
"""

import math
from collections.abc import Callable
from typing import Any

PARTIAL_ROWS = 10
"""An embedding's backward sums gradients in runs of so many rows."""
UNSORTED_ROWS = 3072
"""Up to so many rows it needs no sorting (torch, EmbeddingBackwardKernel.cu)."""
SORT_BYTES = 24
"""For each row sorted: two lists of 8-byte indices, and as much as one for the sort itself."""


def workspace_of(operator: str, args: Any, made: Any) -> float:
    """Temporary bytes of an operator the ledger saw; 0 for those that take none."""
    rule = RULES.get(operator)
    return rule(args, made) if rule else 0.0


def embedding_bytes(rows: int, width: int, num_words: int) -> float:
    """Backward of an embedding sorts its rows, then sums runs of equal ones in fp32 before it writes them.

    >>> embedding_bytes(1000, 256, 10_000), embedding_bytes(1_000_000, 256, 10_000)  # measured: 0 and 138.3 MB
    (0.0, 136640000.0)
    """
    if rows <= UNSORTED_ROWS:
        return 0.0
    num_partial = rows // PARTIAL_ROWS + min(rows, num_words)
    return float(num_partial * math.ceil(width / 32) * 32 * 4 + SORT_BYTES * rows)


def num_bytes(tensor: Any) -> int:
    """Bytes of a dense tensor's elements."""
    return int(tensor.numel() * tensor.element_size())


def _embedding_backward(args: Any, made: Any) -> float:
    return embedding_bytes(args[1].numel(), args[0].shape[-1], args[2])


def _even_gradient(args: Any, made: Any) -> float:
    """These kernels copy a gradient that is not laid out row by row, such as that of a sum."""
    return 0.0 if args[0].is_contiguous() else float(num_bytes(args[0]))


RULES: dict[str, Callable[[Any, Any], float]] = {
    "aten._softmax_backward_data.default": _even_gradient,
    "aten._log_softmax_backward_data.default": _even_gradient,
    "aten.native_layer_norm_backward.default": _even_gradient,
    "aten.embedding_dense_backward.default": _embedding_backward,
}
