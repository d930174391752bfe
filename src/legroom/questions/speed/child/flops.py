"""Counts the floating-point operations of a step, and says which of its operators it could not count."""

from collections.abc import Callable, Mapping
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

HEAVY = ("rnn", "lstm", "gru", "attention", "ctc_loss", "_embedding_bag", "mkldnn")
"""Parts of the names of operators that compute much, and for which torch may have no formula."""


def count_flops(step: Callable[[], Any]) -> tuple[float, list[str]]:
    """Operations of one call, and the names of operators that did work the count leaves out.

    A multiplication with its addition counts as two, as in a peak measured by matrix products.
    """
    counter = FlopCounterMode(display=False)
    seen = Names()
    with seen, counter:
        step()
    counted = {str(name).rpartition(".")[2] for name in counter.get_flop_counts().get("Global", {})}
    missed = {name for name in seen.names if any(word in name for word in HEAVY)} - counted
    return float(counter.get_total_flops()), sorted(name for name in missed if not name.endswith("_backward"))


class Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the name of every operator that runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator and remember what it is called."""
        self.names.add(function._schema.name.rpartition("::")[2])
        return function(*args, **(kwargs or {}))
