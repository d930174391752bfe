"""What the processes of a run have to agree on; here a run in one process, which agrees with itself."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from legroom.job import Job
    from legroom.training.metrics import Recorder
    from legroom.training.step import TrainingStep

Value = TypeVar("Value")


class OneRank:
    """The only process of a run. For one of several, `SeveralRanks` makes each of these methods a meeting of all."""

    number: int = 0
    num_ranks: int = 1

    def prepare(self, job: "Job", model: Any) -> Any:
        """The model as the optimizer should see it."""
        return model

    def join(self, step: "TrainingStep", *, equal: bool) -> "TrainingStep":
        """The step that all ranks make together; `equal`: their batches always weigh the same."""
        return step

    def is_due(self, recorder: "Recorder") -> bool:
        """Whether it is time to look."""
        return recorder.is_due()

    def meet(self, recorder: "Recorder") -> None:
        """Before a look."""

    def first(self, value: Value) -> Value:
        """A number or a decision, as the first rank has it."""
        return value

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sums over all ranks."""
        return values

    def fewest(self, number: int) -> int:
        """The smallest that a rank has."""
        return number

    def share(self, content: Any, model: Any, optimizer: Any) -> Any:
        """What the first rank read from a checkpoint, to all, as their model and optimizer take it."""
        return content

    def evaluating(self, model: Any) -> AbstractContextManager[None]:
        """Within, all ranks have the weights of the first, and wait for no other."""
        return nullcontext()

    def weights(self, model: Any) -> Mapping[str, Any]:
        """The weights of the whole model, to write down."""
        return model.state_dict()  # type: ignore[no-any-return]

    def settle(self, seed: int, content: Mapping[str, Any] | None) -> None:
        """Put random numbers where each rank has its own; `content` is that of the checkpoint to go on from."""

    def state(self, model: Any, optimizer: Any) -> dict[str, Any]:
        """What a checkpoint holds of the ranks besides."""
        return {}


ONE_RANK = OneRank()
