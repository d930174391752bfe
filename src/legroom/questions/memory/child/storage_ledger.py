"""A ledger of every storage torch makes: when it is born, with how many bytes, and when it dies."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from legroom.questions.memory.allocator.trace_law import Event, Trace
from legroom.training.torch_internals import (
    DataDependentOutputException,
    FakeTensor,
    TorchDispatchMode,
    sparse_parts,
    storage_key,
    tree_iter,
)

PHASE_CATEGORY = {"data": "other", "update": "optimizer"}
"""What a storage born in a phase is, where nothing better is known of it; elsewhere it is an activation."""

MATRIX_PRODUCTS = ("aten.mm.", "aten.addmm.", "aten.bmm.", "aten.baddbmm.", "aten.linear.", "aten.matmul.")
"""Operators that make a thread open cuBLAS."""

Temporary = Callable[[str, Any, Any], float]
"""(operator, arguments, result) -> bytes its CUDA kernel takes and gives back."""

_open: list["Ledger"] = []
"""The ledger now in force, innermost last: rules for CUDA kernels write their workspaces into it."""


class Ledger(TorchDispatchMode):
    """Writes down births and deaths of storages; set `phase` to say which part of the step they belong to."""

    def __init__(self, cublas_bytes: int = 0, temporary: Temporary = lambda operator, args, made: 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "before"
        self.operator = ""
        self.is_silent = False
        self._cublas_bytes, self._temporary = cublas_bytes, temporary
        self._cublas_threads: set[str] = set()
        self._numbers: dict[int, int] = {}
        self._watchers: dict[int, Any] = {}
        self._births: dict[int, tuple[int, str, str]] = {}
        self._categories: dict[int, str] = {}
        self._events: list[tuple[int, bool, str]] = []

    def __enter__(self) -> "Ledger":
        _open.append(self)
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        _open.remove(self)
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operator = str(function)
        try:
            made = function(*args, **(kwargs or {}))
        except DataDependentOutputException:
            return self._stand_in(function, args[0])
        if not self.is_silent:
            self.see(made)
            self._open_cublas()  # after the product's own result, as CUDA does
            self.workspace(self._temporary(self.operator, args, made))
        return made

    def see(self, made: Any, category: str | None = None) -> None:
        """Write down every storage in the nest that is not known yet, or name the category of those that are."""
        for tensor in tree_iter(made):
            if isinstance(tensor, torch.Tensor):
                for storage in _storages(tensor):
                    number = self._numbers.get(storage_key(storage))
                    if number is None:
                        number = self._bear(storage.nbytes())
                        self._watch(storage, number)
                    if category is not None:
                        self._categories[number] = category

    def forget(self, made: Any) -> None:
        """Take storages for host memory: they weigh nothing."""
        for tensor in tree_iter(made):
            for storage in _storages(tensor) if isinstance(tensor, torch.Tensor) else ():
                number = self._numbers[storage_key(storage)]
                self._births[number] = (0, *self._births[number][1:])

    def workspace(self, num_bytes: float) -> None:
        """Bytes that are taken and given back at this moment."""
        with self.taking(num_bytes):
            pass

    @contextmanager
    def taking(self, num_bytes: float) -> Iterator[None]:
        """Bytes that are taken here and given back at the end: what is born inside lies behind them."""
        number = self._bear(int(num_bytes), "workspace") if num_bytes > 0 else None
        yield
        if number is not None:
            self._events.append((number, False, self.phase))

    def mark(self) -> int:
        """A place between two events."""
        return len(self._events)

    def cut(self, batch_size: int, start: int, stop: int) -> Trace:
        """The events between two marks, after a birth of all that lived at the first."""
        living = dict.fromkeys(number for number, is_birth, _ in self._events[:start] if is_birth)
        for number, is_birth, _ in self._events[:start]:
            if not is_birth:
                living.pop(number, None)
        events = [(number, True, "before") for number in living] + self._events[start:stop]
        names = {number: name for name, number in enumerate(dict.fromkeys(number for number, _, _ in events))}
        return Trace(batch_size=batch_size, events=tuple(self._event(names, *event) for event in events))

    def _event(self, names: dict[int, int], number: int, is_birth: bool, phase: str) -> Event:
        num_bytes, category, operator = self._births[number]
        return Event(
            storage=names[number],
            num_bytes=num_bytes if is_birth else None,
            phase=phase,
            category=self._categories.get(number, category),
            operator=operator,
        )

    def _bear(self, num_bytes: int, category: str = "") -> int:
        number = len(self._births)
        operator = self.operator if self.phase != "before" else ""
        self._births[number] = (num_bytes, category or PHASE_CATEGORY.get(self.phase, "activations"), operator)
        self._events.append((number, True, self.phase))
        return number

    def _watch(self, storage: Any, number: int) -> None:
        key = storage_key(storage)
        self._numbers[key] = number

        def bury(_: Any) -> None:
            if self._numbers.get(key) == number:
                del self._numbers[key]
            self._events.append((number, False, self.phase))

        self._watchers[number] = weakref.ref(storage, bury)

    def _stand_in(self, function: Any, tensor: torch.Tensor) -> float:
        """A number read where there are no values. A real number is a loss or a score to be shown; a whole one may
        decide a shape, except in evaluation of a model that trained without; a truth decides a branch."""
        is_number = tensor.is_floating_point() or (self.phase == "evaluation" and tensor.dtype != torch.bool)
        if function is not torch.ops.aten._local_scalar_dense.default or not is_number:
            raise DataDependentOutputException(function)
        return 1.0 if tensor.is_floating_point() else 1

    def _open_cublas(self) -> None:
        """Backward runs in a thread of its own on CUDA: each of the two threads keeps a cuBLAS workspace for good."""
        thread = "backward" if self.phase == "backward" else "main"
        if thread not in self._cublas_threads and self.operator.startswith(MATRIX_PRODUCTS):
            self._cublas_threads.add(thread)
            self._bear(self._cublas_bytes, "workspace")


def workspace(num_bytes: float) -> None:
    """Write a kernel's temporary bytes into the ledger in force."""
    if _open:
        _open[-1].workspace(num_bytes)


def taking(num_bytes: float) -> AbstractContextManager[None]:
    """Temporary bytes of a kernel that makes other storages meanwhile."""
    return _open[-1].taking(num_bytes) if _open else nullcontext()


@contextmanager
def unseen() -> Iterator[None]:
    """What is computed inside is not written down: values a rule needs and CUDA would not keep."""
    ledger = _open[-1] if _open else None
    before = ledger.is_silent if ledger else False
    if ledger:
        ledger.is_silent = True
    try:
        yield
    finally:
        if ledger:
            ledger.is_silent = before


def _storages(tensor: torch.Tensor) -> Iterable[Any]:
    if tensor.layout is torch.sparse_coo:
        if isinstance(tensor, FakeTensor):
            raise NotImplementedError("a sparse tensor without values does not say how many it has")
        return tuple(part.untyped_storage() for part in sparse_parts(tensor))
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return ()
    return (tensor.untyped_storage(),)
