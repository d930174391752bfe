"""The pace of updates goes through what was seen of them, whatever its parts were timed to take."""

import itertools
import random

import pytest

from legroom.questions.plan.factors import Pace


@pytest.mark.parametrize("seed", range(20))
def test_a_pace_takes_the_seconds_it_was_put_through_also_where_loading_was_timed_to_take_longer(seed):
    draw = random.Random(seed)
    pace = Pace(
        sizes=[1.0, 32.0, 256.0],
        seconds=sorted(draw.uniform(1e-4, 1e-1) for _ in range(3)),
        inline_seconds=draw.uniform(0.0, 1e-3),
        worker_seconds=draw.uniform(0.0, 1e-3),
        core_seconds=draw.uniform(0.0, 1e-3),
        contention=draw.uniform(0.0, 1.0),
        update=draw.uniform(0.0, 1e-2),
    )
    for batch_size, num_workers, seconds in itertools.product((8, 32), (0, 2), (1e-3, 1e-1)):
        there = pace.through(batch_size, num_workers, seconds)
        assert there.step(batch_size, num_workers) == pytest.approx(seconds, rel=1e-5)
