"""Bytes CUDA kernels take and give back while one operator runs, as laws of its shapes.

Measured on an H200 with torch 2.11 and cuDNN 9.19: validation/2026-11-15-h200-cuda-memory.

Where memory is free, cuDNN copies input, output and weights of a convolution wider than one pixel to channels last.
They count: with them the peaks of alexnet and r3d_18 are met within 0.5 % from 1,104 and 8 samples up, without them
they are 3 to 4 % low. Where they do not fit at all, torch takes another kernel (try_plans in
aten/src/ATen/native/cudnn/Conv_v8.cpp); the allocator has retried by then, and the step is not said to fit.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

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


def convolution_bytes(x: Any, weight: Any, out: Any, groups: int, backward: bool) -> float:
    """Copies in channels last, where the input is not laid out so; none for grouped kernels, nor for single pixels.

    Backward fills channels up to a multiple of 16 bytes, and so does forward in bf16. Forward in fp32 over three
    dimensions writes its output in place. Of 114 measured passes 101 are met within 15 % of input and output; not so
    fp32 with 14 pixels a side and less (up to 0.7 more), nor backward of depthwise kernels in channels last (4 times).

    >>> x, weight = torch.empty(64, 64, 56, 56, device="meta"), torch.empty(64, 64, 3, 3, device="meta")
    >>> convolution_bytes(x, weight, x, 1, backward=False)  # measured: 102.9 MB, and 105.0 MB in backward
    102907904.0
    """
    if groups > 1 or math.prod(weight.shape[2:]) == 1:
        return 0.0
    channels, multiple = x.shape[1], 16 // x.element_size()
    fills = channels % multiple > 0 and (backward or x.dtype == torch.bfloat16)
    read = num_bytes(x) * (math.ceil(channels / multiple) * multiple / channels if fills else 1.0)
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return read if channels % multiple else 0.0
    written = 0 if not backward and x.dim() == 5 and x.dtype == torch.float32 else num_bytes(out)
    return read + written + num_bytes(weight)


def num_bytes(tensor: Any) -> int:
    """Bytes of a dense tensor's elements."""
    return int(tensor.numel() * tensor.element_size())


def _embedding_backward(args: Any, made: Any) -> float:
    return embedding_bytes(args[1].numel(), args[0].shape[-1], args[2])


def _convolution(args: Any, made: Any) -> float:
    return convolution_bytes(args[0], args[1], made, args[8], backward=False)


def _convolution_backward(args: Any, made: Any) -> float:
    return convolution_bytes(args[1], args[2], args[0], args[9], backward=True)


def _even_gradient(args: Any, made: Any) -> float:
    """These kernels copy a gradient that is not laid out row by row, such as that of a sum."""
    return 0.0 if args[0].is_contiguous() else float(num_bytes(args[0]))


RULES: dict[str, Callable[[Any, Any], float]] = {
    "aten._softmax_backward_data.default": _even_gradient,
    "aten._log_softmax_backward_data.default": _even_gradient,
    "aten.native_layer_norm_backward.default": _even_gradient,
    "aten.embedding_dense_backward.default": _embedding_backward,
    "aten.convolution.default": _convolution,
    "aten.convolution_backward.default": _convolution_backward,
}
