"""Where the tensors of an optimizer lie, as tables on their device, so that one kernel takes all of them."""

import functools
import itertools
import math
import os
import warnings
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from legroom.training.optimizers import kernels

CHUNK = 16384
BLOCK = 1024


def takes(param: Tensor) -> bool:
    """Whether the kernels can step this parameter; if not, foreach operations do."""
    if param.grad is None or param.grad.dtype != param.dtype or param.dtype not in kernels.TYPES:
        return False
    # A subclass, such as a shard, may hold its numbers elsewhere. Triton's interpreter runs kernels on the CPU.
    if type(param) not in (nn.Parameter, Tensor) or not (param.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"):
        return False
    return triton_works(param.device)


@functools.cache
def triton_works(device: torch.device) -> bool:
    """Whether a small kernel compiles and starts: that takes a C compiler and, of NVIDIA, compute capability 8.0."""
    try:
        Table([torch.ones(1, device=device)], [{}]).set_rates(1.0)
    except Exception as error:
        warnings.warn(f"Triton does not work on {device} ({error}); LARS and LAMB take longer here.", stacklevel=2)
        return False
    return True


@final
class Table:
    """Addresses and sizes of the tensors of a bucket; they are sent to the device again only when they change."""

    def __init__(self, params: list[Tensor], states: list[dict[str, Any]]) -> None:
        self.params, self.states = params, states
        self.device = params[0].device
        self.dtype = kernels.TYPES[params[0].dtype]
        self.names = [name for name, value in states[0].items() if isinstance(value, Tensor)]
        sizes = [param.numel() for param in params]
        plan = [(index, start, size) for index, size in enumerate(sizes) for start in range(0, size, CHUNK)]
        self.num_chunks = len(plan)
        self.plan = self._send(plan)
        self.first_chunk = self._send([0, *itertools.accumulate(math.ceil(size / CHUNK) for size in sizes)])
        self.sums = torch.zeros(len(plan), 2, device=self.device)
        self.rates = torch.zeros(len(params), device=self.device)
        self._weights = self._send([param.data_ptr() for param in params])
        self._kept: tuple[list[list[int]], list[Tensor]] = [], []
        self._grads: tuple[list[int], Tensor] = [], self._weights
        self._copies: list[Tensor] = []
        self._good_strides: list[Any] | None = None

    def refresh(self) -> None:
        """Follows gradients and states that have moved, and gives each the memory layout of its parameter."""
        addresses = self._state_addresses()
        if addresses != self._kept[0]:
            for param, state in zip(self.params, self.states, strict=True):
                state.update({name: laid_out_like(state[name], param) for name in self.names})
            addresses = self._state_addresses()
            self._kept = addresses, [self._send(column) for column in addresses]
        self._follow_grads([param.grad for param in self.params if param.grad is not None])

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """Addresses of the parameters, of their gradients, and of each tensor of their states."""
        return self._weights, self._grads[1], *self._kept[1]

    def launch(self, kernel: Any, *arguments: Any, **constants: Any) -> None:
        """Starts a kernel with one program a chunk."""
        constants = {**constants, "dtype": self.dtype, "chunk": CHUNK, "block": BLOCK}
        with torch.cuda.device_of(self.sums):  # type: ignore[no-untyped-call]
            kernel[(self.num_chunks,)](self.plan, *arguments, **constants)

    def set_rates(self, lr: float, eta: float = 1.0, weight_decay: float = 0.0, eps: float = 0.0) -> None:
        """Makes the rate of each tensor from its sums of squares."""
        law = float(lr), float(eta), float(weight_decay), float(eps)
        with torch.cuda.device_of(self.sums):  # type: ignore[no-untyped-call]
            kernels.rates[(len(self.params),)](self.sums, self.first_chunk, self.rates, *law, block=BLOCK)

    def _state_addresses(self) -> list[list[int]]:
        return [[state[name].data_ptr() for state in self.states] for name in self.names]

    def _follow_grads(self, grads: list[Tensor]) -> None:
        strides = [grad.stride() for grad in grads]
        if strides != self._good_strides:
            laid_out = [laid_out_like(grad, param) for grad, param in zip(grads, self.params, strict=True)]
            # Kept until the next ones are made: the kernels have yet to read them.
            self._copies = [mine for mine, grad in zip(laid_out, grads, strict=True) if mine is not grad]
            self._good_strides = None if self._copies else strides
            grads = laid_out
        addresses = [grad.data_ptr() for grad in grads]
        if addresses != self._grads[0]:
            self._grads = addresses, self._send(addresses)

    def _send(self, numbers: Sequence[Any]) -> Tensor:
        # From pinned memory nobody waits; torch reuses it only after the copy.
        pinned = torch.tensor(numbers, dtype=torch.int64, pin_memory=self.device.type == "cuda")
        return pinned.to(self.device, non_blocking=True)


def laid_out_like(tensor: Tensor, param: Tensor) -> Tensor:
    """The tensor, or a copy, with the strides, type and device of the parameter: kernels walk raw memory."""
    if (tensor.shape, tensor.dtype, tensor.device) == (param.shape, param.dtype, param.device):
        # A dimension of size 1 is never walked; autograd leaves any stride there (1x1 convolutions in channels_last).
        sizes = zip(param.shape, tensor.stride(), param.stride(), strict=True)
        if tensor.stride() == param.stride() or all(size == 1 or mine == other for size, mine, other in sizes):
            return tensor
    return torch.empty_like(param).copy_(tensor)
