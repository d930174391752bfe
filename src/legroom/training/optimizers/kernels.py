# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Triton kernels of LARS and LAMB: each program takes one chunk of one tensor, found by its address in a table.

`plan` holds the tensor, the first element and the number of elements of its tensor for each program; `weights`, `grads`
and so on hold addresses. Numbers are float32 whatever the tensors are. Sums are added in a fixed order, so a step
repeats bit for bit.
"""

from typing import Any

import torch

TYPES: dict[torch.dtype, Any] = {}  # those the kernels take, as Triton names them

try:
    import triton
    import triton.language as tl
except ImportError:  # torch brings Triton with its CUDA builds only
    pass
else:
    TYPES |= {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}

    @triton.jit
    def place(plan):
        row = plan + tl.program_id(0) * 3
        return tl.load(row), tl.load(row + 1), tl.load(row + 2)

    @triton.jit
    def tensor_at(addresses, index, dtype: tl.constexpr):
        return tl.load(addresses + index).to(tl.pointer_type(dtype))

    @triton.jit
    def load(tensor, offsets, mask):
        return tl.load(tensor + offsets, mask=mask, other=0.0).to(tl.float32)

    @triton.jit
    def store_sums(sums, a, b):
        tl.store(sums + tl.program_id(0) * 2, tl.sum(a))
        tl.store(sums + tl.program_id(0) * 2 + 1, tl.sum(b))

    @triton.jit
    def rates(sums, first_chunk, out, lr, eta, weight_decay, eps, block: tl.constexpr):
        """One program a tensor: lr * eta * a / (b + weight_decay * a + eps) of the norms a and b; lr where one is 0."""
        index = tl.program_id(0)
        first, last = tl.load(first_chunk + index), tl.load(first_chunk + index + 1)
        a = tl.zeros([block], tl.float32)
        b = tl.zeros([block], tl.float32)
        for start in range(first, last, block):
            chunks = start + tl.arange(0, block)
            a += load(sums, chunks * 2, chunks < last)
            b += load(sums, chunks * 2 + 1, chunks < last)
        a_norm, b_norm = tl.sqrt_rn(tl.sum(a)), tl.sqrt_rn(tl.sum(b))
        usable = (a_norm > 0) & (b_norm > 0)
        below = tl.where(usable, b_norm + weight_decay * a_norm + eps, 1.0)
        tl.store(out + index, lr * tl.where(usable, eta * a_norm / below, 1.0))

    @triton.jit
    def lars_sums(plan, weights, grads, sums, dtype: tl.constexpr, chunk: tl.constexpr, block: tl.constexpr):
        """The sums of squares of w and of g over a chunk."""
        index, start, size = place(plan)
        weight, grad = tensor_at(weights, index, dtype), tensor_at(grads, index, dtype)
        a = tl.zeros([block], tl.float32)
        b = tl.zeros([block], tl.float32)
        for step in range(0, chunk, block):
            offsets = start + step + tl.arange(0, block)
            w, g = load(weight, offsets, offsets < size), load(grad, offsets, offsets < size)
            a += w * w
            b += g * g
        store_sums(sums, a, b)

    @triton.jit
    def lars_update(
        plan,
        weights,
        grads,
        speeds,
        rates,
        lr,
        momentum,
        weight_decay,
        adapt: tl.constexpr,
        nesterov: tl.constexpr,
        dtype: tl.constexpr,
        chunk: tl.constexpr,
        block: tl.constexpr,
    ):
        """v = momentum * v + rate * (g + weight_decay * w), then w = w - v or Nesterov's step."""
        index, start, size = place(plan)
        weight, grad = tensor_at(weights, index, dtype), tensor_at(grads, index, dtype)
        speed = tensor_at(speeds, index, dtype)
        rate = tl.load(rates + index) if adapt else lr
        for step in range(0, chunk, block):
            offsets = start + step + tl.arange(0, block)
            mask = offsets < size
            w, v = load(weight, offsets, mask), load(speed, offsets, mask)
            push = rate * (load(grad, offsets, mask) + weight_decay * w)
            v = momentum * v + push
            tl.store(speed + offsets, v.to(dtype), mask=mask)
            moved = push + momentum * v if nesterov else v
            tl.store(weight + offsets, (w - moved).to(dtype), mask=mask)

    @triton.jit
    def lamb_direction(w, m, v, m_share, v_share, eps, weight_decay):
        return m / m_share / (tl.sqrt_rn(v / v_share) + eps) + weight_decay * w

    @triton.jit
    def lamb_moments(
        plan,
        weights,
        grads,
        means,
        squares,
        sums,
        m_pull,
        v_pull,
        m_share,
        v_share,
        eps,
        weight_decay,
        dtype: tl.constexpr,
        chunk: tl.constexpr,
        block: tl.constexpr,
    ):
        """Moves both moments; then the sums of squares of w and of r over a chunk."""
        index, start, size = place(plan)
        weight, grad = tensor_at(weights, index, dtype), tensor_at(grads, index, dtype)
        mean, square = tensor_at(means, index, dtype), tensor_at(squares, index, dtype)
        a = tl.zeros([block], tl.float32)
        b = tl.zeros([block], tl.float32)
        for step in range(0, chunk, block):
            offsets = start + step + tl.arange(0, block)
            mask = offsets < size
            w, g = load(weight, offsets, mask), load(grad, offsets, mask)
            m, v = load(mean, offsets, mask), load(square, offsets, mask)
            m = (m + m_pull * (g - m)).to(dtype)
            v = (v + v_pull * (g * g - v)).to(dtype)
            tl.store(mean + offsets, m, mask=mask)
            tl.store(square + offsets, v, mask=mask)
            # As rounded: the update reads the moments again and must take the r that was measured here.
            r = lamb_direction(w, m.to(tl.float32), v.to(tl.float32), m_share, v_share, eps, weight_decay)
            a += w * w
            b += tl.where(mask, r * r, 0.0)
        store_sums(sums, a, b)

    @triton.jit
    def lamb_update(
        plan,
        weights,
        means,
        squares,
        rates,
        lr,
        m_share,
        v_share,
        eps,
        weight_decay,
        adapt: tl.constexpr,
        dtype: tl.constexpr,
        chunk: tl.constexpr,
        block: tl.constexpr,
    ):
        """w = w - rate * r."""
        index, start, size = place(plan)
        weight = tensor_at(weights, index, dtype)
        mean, square = tensor_at(means, index, dtype), tensor_at(squares, index, dtype)
        rate = tl.load(rates + index) if adapt else lr
        for step in range(0, chunk, block):
            offsets = start + step + tl.arange(0, block)
            mask = offsets < size
            w, m, v = load(weight, offsets, mask), load(mean, offsets, mask), load(square, offsets, mask)
            r = lamb_direction(w, m, v, m_share, v_share, eps, weight_decay)
            tl.store(weight + offsets, (w - rate * r).to(dtype), mask=mask)
