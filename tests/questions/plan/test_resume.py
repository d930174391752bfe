"""A plan that was killed goes on where it was: it repeats no finished measurement and gives the same answer."""

import json
import random
from dataclasses import asdict

import pytest

from legroom.logbook import FILE_NAME, read_lines
from legroom.plan_file import read_plan
from legroom.testing.machine import START_SECONDS

SPENT = ("seconds", "spent", "found", "before", "cost_seconds")
"""Processes are started again, and what lay in the folder is told as such; all else is the same."""


class Killed(BaseException):
    """As SIGKILL: nobody cleans up after it but what a process that is gone leaves behind."""


def plan_of(answer):
    """The answer without what it cost; sums of seconds may have been added up in another order."""
    words = {name: value for name, value in asdict(answer).items() if name not in SPENT}
    return json.loads(json.dumps(words), parse_float=lambda text: round(float(text), 9))


def deadly(machine, num_left):
    """The machine, which is killed instead of giving its next answer after so many."""
    whole, left = machine.answer, [num_left]

    def answer(request):
        if not left[0]:
            raise Killed
        left[0] -= 1
        return whole(request)

    machine.answer = answer
    return machine


@pytest.mark.parametrize(("seed", "devices"), [(0, "1"), (1, "1"), (2, "all")])
def test_a_plan_killed_ten_times_repeats_nothing_and_is_the_same(planted, tmp_path, seed, devices):
    rng, killed = random.Random(seed), planted.plant()
    whole = planted.ask(tmp_path / "whole", killed, devices=devices)
    asked = []
    for _ in range(10):
        machine = deadly(planted.plant(), rng.randint(0, max(1, len(killed.asked) // 8)))
        try:
            planted.ask(tmp_path / "killed", machine, resume=True, devices=devices)
        except Killed:
            asked += machine.asked
            continue
        asked += machine.asked
    machine = planted.plant()
    answer = planted.ask(tmp_path / "killed", machine, resume=True, devices=devices)
    asked += machine.asked
    assert len(asked) == len({repr(request) for request in asked}), "something was measured again"
    expected, found = plan_of(whole), plan_of(answer)
    expected["plan_path"] = found["plan_path"]
    assert found == expected
    paid = sum(entry.seconds for entry in read_lines(tmp_path / "killed" / FILE_NAME)[1])
    assert answer.cost_seconds == pytest.approx(paid)
    assert read_plan(tmp_path / "killed" / "plan.toml").cost_seconds == answer.cost_seconds


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8])
def test_a_plan_that_goes_on_has_no_more_than_its_budget_in_all(planted, tmp_path, place):
    """Killed after a part of its measurements; they count as they did when they were made."""
    whole = planted.plant()
    first = planted.ask(tmp_path / "whole", whole, budget=90.0)
    with pytest.raises(Killed):
        planted.ask(tmp_path / "killed", deadly(planted.plant(), int(place * len(whole.asked))), budget=90.0)
    answer = planted.ask(tmp_path / "killed", planted.plant(), resume=True, budget=90.0)
    assert 0.85 * first.cost_seconds < answer.cost_seconds < 90.0 + 2 * START_SECONDS


def test_a_second_plan_in_the_folder_cost_what_the_first_did(planted, tmp_path):
    first = planted.ask(tmp_path, planted.plant())
    second = planted.ask(tmp_path, planted.plant())
    assert "speed" not in second.spent
    assert {"speed, before", "rate, before"} <= set(second.before)
    assert second.cost_seconds == pytest.approx(first.cost_seconds, rel=0.2)
