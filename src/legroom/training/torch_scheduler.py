"""A schedule as torch wants it."""

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from legroom.training.schedules import Schedule


def as_scheduler(optimizer: torch.optim.Optimizer, schedule: Schedule) -> LRScheduler:
    """Multiply each parameter group's own rate by the schedule: call its `step()` after each update.

    The rate of the first update is set at once. Build the schedule with peak=1, so that each group peaks at the rate
    its optimizer was made with.

    >>> from legroom.training.schedules import warmup
    >>> weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    >>> optimizer = torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.1}], lr=1.0)
    >>> scheduler = as_scheduler(optimizer, warmup(4, peak=1.0, start=0.5))
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.625, 0.0625]
    """
    return LambdaLR(optimizer, schedule)
