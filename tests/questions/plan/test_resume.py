"""A plan that was killed goes on where it was: it repeats no finished measurement and gives the same answer."""

import json
import random
from dataclasses import asdict

import pytest

SPENT = ("seconds", "spent")
"""What a resumed plan paid is less; all else is the same."""


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
