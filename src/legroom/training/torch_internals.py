"""Every private name of torch that legroom touches: where another version of torch breaks us, it does so here.

Operators (`torch.ops.aten._softmax`) and functions that torch documents (`torch._foreach_add`) are no part of it.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as LoaderIterator

from legroom.imports import uncollected

__all__ = [
    "DataDependentOutputException",
    "FakeTensor",
    "FakeTensorMode",
    "LoaderIterator",
    "TorchDispatchMode",
    "in_kernel_invocation_manager",
    "tree_iter",
]


def expand_segments(expand: bool) -> None:
    """Have torch take memory from a card in segments that grow, or in fixed ones, from now on."""
    torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{expand}")


def import_compiler() -> None:
    """Import what the first optimizer of a process imports, without a collector that walks it."""
    with uncollected():
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)


def clear_cublas_workspaces() -> None:
    """Give back what each thread's cuBLAS holds of the card."""
    torch._C._cuda_clearCublasWorkspaces()


def sleep_on_card(num_cycles: int) -> None:
    """Keep the card idle for so many of its cycles."""
    torch.cuda._sleep(num_cycles)  # type: ignore[no-untyped-call]


def kernel_events(profile: torch.profiler.profile) -> Any:
    """All that was traced, as it was written: to sort 10,000 events into a tree takes 1 s."""
    assert profile.profiler is not None
    return profile.profiler.kineto_results.events()  # type: ignore[union-attr]


def below_autograd() -> AbstractContextManager[Any]:
    """Within, operators run as torch itself has them, whatever was registered for autograd."""
    return torch._C._AutoDispatchBelowAutograd()


def operators_with(dispatch_key: str) -> set[str]:
    """Names of torch's own operators that have an implementation under that key."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key)
    return {name.removeprefix("aten::") for name in registered if name.startswith("aten::")}


def schema_of(operator: Any) -> Any:
    """An operator's name and arguments."""
    return operator._schema


def unregister(library: torch.library.Library) -> None:
    """Take back what was registered with the library."""
    library._destroy()  # type: ignore[no-untyped-call]


def storage_key(storage: Any) -> int:
    """A number that no other living storage has."""
    return int(storage._cdata)


def sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices and values of a sparse tensor, coalesced or not."""
    return tensor._indices(), tensor._values()


class UpdatingScaler(torch.amp.GradScaler):
    """Scales as on a device, and updates always: whether a gradient overflowed is a value, and there may be none."""

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)


def mark_stepped(optimizer: torch.optim.Optimizer) -> None:
    """Let torch take the optimizer for one that has made an update: it warns where its scheduler goes first."""
    optimizer._opt_called = True  # type: ignore[attr-defined]


def buffers_of(module: torch.nn.Module) -> tuple[dict[str, Any], set[str]]:
    """The buffers of a module, as it holds them, and the names of those that its state_dict has."""
    return module._buffers, set(module._buffers) - module._non_persistent_buffers_set


def iterator_of(loader: Any) -> Any:
    """The iterator that a loader keeps with its processes from epoch to epoch; None where it has none."""
    return getattr(loader, "_iterator", None)


def processes_of(iterator: Any) -> list[Any]:
    """Loader processes behind an iterator."""
    return list(getattr(iterator, "_workers", ()))


def end_processes(iterator: LoaderIterator) -> None:
    """Tell the loader processes behind an iterator to end."""
    iterator._shutdown_workers()
