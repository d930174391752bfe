"""A schedule in torch's hands: each group keeps its own rate, and a resumed run goes on where it was."""

import pytest
import torch

from legroom.training.rates import as_scheduler
from legroom.training.schedule_text import make_schedule


def make_optimizer() -> torch.optim.Optimizer:
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    return torch.optim.SGD([{"params": weights[:1], "lr": 0.5}, {"params": weights[1:], "lr": 0.02}], lr=1.0)


SCHEDULE = make_schedule("polynomial:power=2", num_steps=20, steps_per_epoch=5, warmup_steps=4)


def advance(optimizer, scheduler, num_steps):
    seen = []
    for _ in range(num_steps):
        seen.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return seen


def test_each_groups_own_rate_is_multiplied_at_every_update():
    optimizer = make_optimizer()
    seen = advance(optimizer, as_scheduler(optimizer, SCHEDULE), 20)
    for step, rates in enumerate(seen):
        assert rates == pytest.approx([0.5 * SCHEDULE(step), 0.02 * SCHEDULE(step)])


def test_the_first_update_already_has_its_rate():
    optimizer = make_optimizer()
    as_scheduler(optimizer, SCHEDULE)
    assert [group["lr"] for group in optimizer.param_groups] == [0.0, 0.0]


def test_a_resumed_run_goes_on_where_it_was():
    whole_optimizer = make_optimizer()
    whole = advance(whole_optimizer, as_scheduler(whole_optimizer, SCHEDULE), 20)
    first = make_optimizer()
    scheduler = as_scheduler(first, SCHEDULE)
    advance(first, scheduler, 7)
    second = make_optimizer()
    resumed = as_scheduler(second, SCHEDULE)
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    assert advance(second, resumed, 13) == whole[7:]
