"""Plans: what is written is read back, hand-made changes count, and mistakes are named."""

import os

import pytest

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.plan import Plan, Recommendation, read_plan, write_plan

SETTINGS = Settings(batch_size=48, accumulation_steps=2, learning_rate=0.3, clip_norm=1.5, seed=7)
NAMES = ("batch_size", "accumulation_steps", "learning_rate", "clip_norm", "seed")


def make_plan():
    items = [
        Recommendation(name=name, value=getattr(SETTINGS, name), range=(1, 99), because="measured", evidence=["x"])
        for name in NAMES
    ]
    items.append(Recommendation(name="allocator", value="default", range=None, because="proved", evidence=["x"]))
    return Plan(
        job="digits", options={"hidden": "32"}, machine="m", goal="time", settings=SETTINGS, recommendations=items
    )


def test_a_plan_is_read_as_it_was_written(tmp_path):
    write_plan(make_plan(), tmp_path / "plan.toml")
    read = read_plan(tmp_path / "plan.toml")
    assert read == make_plan()


def test_a_value_changed_by_hand_counts(tmp_path):
    path = tmp_path / "plan.toml"
    write_plan(make_plan(), path)
    path.write_text(path.read_text().replace("value = 48", "value = 64"))
    assert read_plan(path).settings.batch_size == 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[batch_size]", "[batchsize]"), r"a table \[batchsize\] that no plan has"),
        (("value = 48", 'value = "many"'), "must be a whole number"),
        (("value = 48", "value = "), "is no TOML"),
        (("value = 0.3", "value = -0.3"), "must be a positive number"),
        (('value = "default"', 'value = "fast"'), "plan.toml is 'fast'; it must be expandable or default"),
    ],
)
def test_mistakes_in_a_plan_are_named(tmp_path, change, words):
    path = tmp_path / "plan.toml"
    write_plan(make_plan(), path)
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(UsageError, match=words):
        read_plan(path)


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(UsageError, match="legroom plan writes one"):
        read_plan(tmp_path / "plan.toml")


def test_a_plan_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "plan.toml"
    write_plan(make_plan(), path)
    before = path.read_text()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_plan(make_plan(), path)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.toml"]
