"""A changed plan: what is wrong is told in the words of TOML, and a forecast of other settings is dropped."""

import pytest

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.plan_file import Plan, read_plan, write_plan
from legroom.questions.base import Recommendation

VALUES = {"batch_size": 48, "learning_rate": 0.3, "fused": False, "clip_norm": None, "eval_batch_size": 99, "seed": 0}


@pytest.fixture
def path(tmp_path):
    items = [Recommendation(name=name, value=value, range=None, because="planted") for name, value in VALUES.items()]
    forecast = {"target": "score=0.97", "predicted_seconds": 12.0, "predicted_range": (9.0, 16.0)}
    words = {"options": {}, "machine": "planted", "goal": "fastest", "settings": Settings(), "recommendations": items}
    write_plan(Plan(job="digits", **words, **forecast), tmp_path / "plan.toml")
    return tmp_path / "plan.toml"


def change(path, *words):
    text = path.read_text()
    assert words[0] in text
    path.write_text(text.replace(*words, 1))


@pytest.mark.parametrize(
    ("words", "edited"),
    [
        (("made by", "kept by"), False),
        (("planted", "I like it"), False),
        (("value = 99", "value = 16"), False),
        (("[seed]\nvalue = 0", "[seed]\nvalue = 7"), False),
        (("value = 48", "value = 64"), True),
        (("value = false", "value = true"), True),
        (("[clip_norm]", "[clip_norm]\nvalue = 1.0"), True),
        (("score=0.97", "score=0.9"), True),
        (("[batch_size]", "[num_steps]\nvalue = 9\n[batch_size]"), True),
    ],
)
def test_a_plan_whose_run_was_changed_by_hand_has_no_forecast_and_any_other_keeps_it(path, words, edited):
    path.write_text("# made by legroom\n" + path.read_text())
    change(path, *words)
    plan = read_plan(path)
    assert (plan.edited, plan.predicted_seconds is None, plan.predicted_range is None) == (edited,) * 3


def test_a_plan_of_before_that_does_not_say_what_was_written_keeps_its_forecast(path):
    path.write_text(path.read_text().partition("[written]")[0].replace("value = 48", "value = 64"))
    assert (read_plan(path).edited, read_plan(path).predicted_seconds) == (False, 12.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (('"fastest"', '"speediest"'), "line 4: goal is 'speediest'; it must be one of fastest, cheapest, frugal"),
        (
            ("[clip_norm]", "[clip_norm]\nvalue = 0"),
            "clip_norm is 0; it must be a positive number; to have none, remove",
        ),
        (("value = false", "value = 1"), "fused is 1; it must be true or false"),
        (("value = 48", "value = true"), "batch_size is true; it must be a whole number"),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_file(path, words, message):
    change(path, *words)
    with pytest.raises(UsageError, match=message):
        read_plan(path)
