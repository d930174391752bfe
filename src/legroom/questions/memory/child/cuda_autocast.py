"""CUDA's autocast for CPU tensors: which operators run in half precision, and which in fp32."""

from collections.abc import Callable
from typing import Any

import torch

from legroom.questions.memory.child.storage_ledger import unseen, workspace
from legroom.training.torch_internals import FakeTensor, operators_with, schema_of

HALF = (torch.float16, torch.bfloat16)
LOWER = frozenset((
    "addmv", "addr", "einsum", "mv", "chain_matmul", "linalg_multi_dot", "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "conv_tbc", "prelu",
))  # fmt: skip
"""Operators CUDA runs in half precision, beyond those the CPU does as well."""
FP32_RESULT = frozenset((
    "softmax.int", "log_softmax.int", "prod", "prod.dim_int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList", "norm.Scalar", "norm.ScalarOpt_dim",
))  # fmt: skip
"""Operators that take half precision and give fp32, by their own `dtype` argument."""
UNTOUCHED = frozenset((
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add", "binary_cross_entropy",
))  # fmt: skip
"""Operators that only promote mixed types, or refuse."""


class HalfToFloat(torch.autograd.Function):
    """softmax of fp16 to fp32 in one CUDA kernel: no fp32 copy of the input, and an fp16 gradient."""

    @staticmethod
    def forward(ctx: Any, operator: Any, x: Any, dim: int) -> Any:
        made = x.new_empty(x.shape, dtype=torch.float32)
        if not isinstance(x, FakeTensor):
            with unseen():
                made.copy_(operator(x.float(), dim))
        ctx.save_for_backward(made)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (made,) = ctx.saved_tensors
        half = torch.zeros_like(made, dtype=torch.float16)
        workspace(0 if grad.is_contiguous() else made.numel() * 4)
        return None, half, None


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _cast(value: Any, wanted: torch.dtype) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_cast(item, wanted) for item in value)
    is_float = isinstance(value, torch.Tensor) and value.dtype in (*HALF, torch.float32)
    return value.to(wanted) if is_float else value


def _in(operator: Any, wanted: Callable[[], torch.dtype]) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            dtype = wanted()
            casted = {name: _cast(value, dtype) for name, value in options.items()}
            return operator(*(_cast(value, dtype) for value in args), **casted)

    return run


def _to_fp32(operator: Any) -> Callable[..., Any]:
    names = [argument.name for argument in schema_of(operator).arguments]

    def run(x: Any, *args: Any, **options: Any) -> Any:
        given = dict(zip(names[1:], args, strict=False)) | options
        with torch.autocast("cpu", enabled=False):
            if x.dtype not in HALF or given.get("dtype") is not None:
                return operator(x, *args, **options)
            if x.dtype == torch.float16 and "softmax" in str(operator):
                return HalfToFloat.apply(operator, x, given["dim"])  # type: ignore[no-untyped-call]
            if "dtype" not in names:
                return operator(x.float(), *args, **options)
            return operator(x, **{**given, "dtype": torch.float32})

    return run


def _rule(name: str) -> Callable[..., Any]:
    operator = _operator(name)
    if name in FP32_RESULT:
        return _to_fp32(operator)
    if name in LOWER:
        return _in(operator, lambda: torch.get_autocast_dtype("cpu"))
    return _in(operator, lambda: torch.float32)


def register(library: Any) -> None:
    """Make the CPU's cast lists those of CUDA, as this version of torch has them."""
    cuda, cpu = operators_with("AutocastCUDA"), operators_with("AutocastCPU")
    rnn = {name for name in cpu if name.startswith(("lstm.", "gru.", "rnn_")) and name not in LOWER}
    for name in sorted(cuda - cpu - UNTOUCHED):
        library.impl(name, _rule(name), "AutocastCPU")
    for name in sorted(cpu - cuda - rnn):
        library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU", allow_override=True)
