"""A link whose messages take longer than they do here: gradients are held back before they travel."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import distributed
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


class DelayedLink:
    """All-reduces of rings whose messages each take so many seconds more; with 0 they are torch's own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.num_ranks = distributed.get_world_size()
        self.sender = ThreadPoolExecutor(1)
        """One bucket after another, as on a link."""

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks, in place."""
        if self.seconds:
            time.sleep(2 * (self.num_ranks - 1) * self.seconds)
        distributed.all_reduce(tensor)
        return tensor

    def slow_down(self, wrapped: DistributedDataParallel) -> None:
        """Let the module's buckets travel so, beside its backward pass."""
        if self.seconds:
            wrapped.register_comm_hook(None, self._send_later)

    def _send_later(self, state: Any, bucket: distributed.GradBucket) -> Future[torch.Tensor]:  # type: ignore[name-defined]
        found: Future[torch.Tensor] = Future()
        mean = bucket.buffer().div_(self.num_ranks)

        def send() -> None:
            try:
                found.set_result(self.all_reduce(mean))
            except Exception as error:  # told in the backward pass, which waits for it
                found.set_exception(error)  # type: ignore[arg-type]

        self.sender.submit(send)
        return found
