"""What CUDA kernels keep and take where CPU kernels differ, put in the dispatcher of a process that is thrown away."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from legroom.questions.memory.child.cuda_workspace import num_bytes
from legroom.questions.memory.child.storage_ledger import unseen, workspace
from legroom.training.torch_internals import FakeTensor, unregister

CUBLAS_WORKSPACE_BYTES = {9: 32 * 2**20, 10: 32 * 2**20}
"""Major compute capability -> bytes each thread's cuBLAS keeps; other cards have CUBLAS_WORKSPACE_OTHER_BYTES.

Measured on an H200: 32 MiB after the first product of a thread, and as much again in the thread of backward."""
CUBLAS_WORKSPACE_OTHER_BYTES = 8 * 2**20 + 128 * 2**10

SLACK_BYTES = 30 * 2**20
SLACK_SHARE = 0.009
"""Reserved beyond allocated at the peak, with expandable segments: ends of pools, and holes between blocks.

From four peaks of resnet50 on an H200: 37 MiB beyond 977, 96 beyond 5,560, 152 beyond 16,076, 190 beyond 16,144."""

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def fill(made: torch.Tensor, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Give the tensor its values where values exist, at no byte of the ledger."""
    if not isinstance(made, FakeTensor):
        with unseen(), torch.no_grad():
            made.copy_(compute())
    return made


class Attention(torch.autograd.Function):
    """Fused attention: keeps q, k, v, out and a log-sum-exp for each query, no score matrix.

    CUDA takes the memory-efficient kernels for fp32 and, on Hopper, cuDNN's for half precision; flash attention keeps
    as much. All 37 calls measured on an H200 agree, within what the allocator rounds.
    """

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
        batch, heads, length, _ = q.shape
        if q.dtype == torch.float32:
            # These kernels write (batch, length, heads, width): what follows can reshape it without a copy.
            out = q.new_empty(batch, length, heads, v.shape[-1]).transpose(1, 2)
            length = -(-length // 32) * 32
        else:
            out = _laid_out_like(q, v.shape[-1])
        lse = q.new_empty((batch, heads, length), dtype=torch.float32)
        fill(out, lambda: _math(q, k, v, mask, 0.0, causal, scale))
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        q, k, v, _, out, lse = ctx.saved_tensors
        grads = tuple(torch.zeros_like(tensor) for tensor in (q, k, v))
        # fp32: out times its gradient, and two sums of that; half: q's gradient summed in fp32, and one.
        is_half = q.dtype != torch.float32
        copied = num_bytes(grad) if is_half and grad.stride() != out.stride() else 0
        workspace(q.numel() * 4 + num_bytes(lse) * (1 if is_half else 2) + copied)
        return (*grads, None, None, None)


def _laid_out_like(q: Any, width: int) -> Any:
    """An empty tensor of q's rows, in memory in q's order: where heads come after the length, they do so here."""
    batch, heads, length, _ = q.shape
    if q.stride(1) < q.stride(2):
        return q.new_empty(batch, length, heads, width).transpose(1, 2)
    return q.new_empty(batch, heads, length, width)


def _math(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: float | None) -> Any:
    return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, scale=scale)[0]


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **options: Any
) -> Any:
    """scaled_dot_product_attention as CUDA picks it: fused for four dimensions and a mask without gradient."""
    scale, grouped = options.get("scale"), options.get("enable_gqa", False)
    if grouped and q.shape[-3] != k.shape[-3]:
        k, v = (tensor.repeat_interleave(q.shape[-3] // tensor.shape[-3], -3) for tensor in (k, v))
    fused = q.dim() == 4 and q.dtype in FLOATS and not (attn_mask is not None and attn_mask.requires_grad)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill_(attn_mask.logical_not(), float("-inf"))
    if not fused:
        return _math(q, k, v, attn_mask, dropout_p, is_causal, scale)
    return Attention.apply(q, k, v, attn_mask, is_causal, scale)  # type: ignore[no-untyped-call]


def dropout(tensor: torch.Tensor, probability: float, train: bool) -> torch.Tensor:
    """CUDA's fused dropout keeps a mask of one byte an element; the CPU keeps a mask of the input's type."""
    if not train or probability == 0 or tensor.numel() == 0:
        return tensor
    return torch.native_dropout(tensor, probability, True)[0] if probability < 1 else tensor * 0.0


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """A linear layer as torch computes it outside of traces, where a bias is added in a copy (isTensorSubclassLike)."""
    if bias is None:
        return torch.matmul(x, weight.t())
    if x.dim() == 2:
        return torch.addmm(bias, x, weight.t())
    if x.dim() > 2 and x.is_contiguous():
        return torch.addmm(bias, x.reshape(-1, x.shape[-1]), weight.t()).view(*x.shape[:-1], weight.shape[0])
    return torch.matmul(x, weight.t()).add_(bias)


@contextmanager
def installed() -> Iterator[None]:
    """CUDA's rules for operators on CPU tensors, of every caller in this process, Python or C++."""
    from legroom.questions.memory.child import cuda_autocast, cuda_rnn

    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    fastpath = torch.backends.mha.get_fastpath_enabled()
    try:
        # One fused operator would hide all tensors inside it from the ledger.
        torch.backends.mha.set_fastpath_enabled(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # replacing kernels is the purpose
            library.impl("dropout", dropout, "AutogradCPU")
            library.impl("linear", linear, "AutogradCPU")
            library.impl("scaled_dot_product_attention", attention, "AutogradCPU")
            cuda_rnn.register(library)
            cuda_autocast.register(library)
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        unregister(library)
