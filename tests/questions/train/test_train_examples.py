"""The files of examples/ are jobs that train."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_every_example_trains_and_is_evaluated(legroom_here, forking, name):
    ran = legroom_here("train", f"{EXAMPLES / name}.py:job", "--device", "cpu", "--steps", "3", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["num_steps"] == 3
    assert ran.json["evaluations"][-1]["loss"] > 0
