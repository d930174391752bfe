"""What twice the model or the data buys, with its ranges, what fits, and what the figures mark."""

import re
from dataclasses import replace

import pytest

from legroom.host.cards import CONTEXT_BYTES
from legroom.questions.size.figures import figures_of, tables_of
from legroom.questions.size.view import section, size_rows
from legroom.testing import FakeSizes, plant_host
from legroom.testing.host import plant_gpu

PLANTED = FakeSizes(a=40.0, k1=0.8, k2=0.5, b=60.0)
NUM_CASES = 8


def holds(span, value):
    return span[0] <= value <= span[1]


def test_ranges_of_what_the_next_doubling_buys_hold_what_was_planted_in_most_cases(ask, tmp_path):
    num_held = {"steps": 0, "data": 0, "seconds": 0, "loss": 0}
    for case in range(NUM_CASES):
        fake = replace(PLANTED, noise=0.1, parameters_per_second=1e8)
        answer, _ = ask(fake, tmp_path / str(case), seed=case)
        size, samples = answer.next_model["num_parameters"] // 2, 10_000
        steps = fake.steps(2 * size, samples) / fake.steps(size, samples)
        slower = (1e-4 + 2 * size / 1e8) / (1e-4 + size / 1e8)
        data = fake.steps(size, 2 * samples) / fake.steps(size, samples)
        loss = fake.loss(size, 2 * samples) / fake.loss(size, samples)
        num_held["steps"] += holds(answer.next_model["steps_ratio_range"], steps)
        num_held["data"] += holds(answer.next_data["steps_ratio_range"], data)
        num_held["seconds"] += holds(answer.next_model["seconds_ratio_range"], steps * slower)
        num_held["loss"] += holds(answer.next_data["loss_ratio_range"], loss)
    assert min(num_held.values()) >= 0.8 * NUM_CASES, num_held


@pytest.mark.parametrize(
    ("words", "what", "way"),
    [
        ({"widths": [16], "fractions": [0.0625, 0.125, 0.25]}, "model", "Name more --widths"),
        ({"fractions": [1.0]}, "data", "Name more --fractions"),
    ],
)
def test_of_what_was_not_varied_nobody_says_what_twice_as_much_buys(ask, tmp_path, words, what, way):
    answer, _ = ask(PLANTED, tmp_path, **words)
    twice = getattr(answer, f"next_{what}")
    assert (twice["steps_ratio"], twice["loss_ratio"], twice["seconds_ratio"]) == (None, None, None)
    assert any(f"twice the {what}: trials settled at one" in each and way in each for each in answer.not_measured)
    assert (f"twice the {what}", "open", "nothing was seen of it") in size_rows(answer)
    assert section(answer).summary


class Slows(FakeSizes):
    """A step of the largest model takes three times as long as the smaller ones foretell."""

    def train(self, request):
        found = super().train(request)
        return replace(found, step_seconds=3 * found.step_seconds) if request.value == 128 else found


def test_seconds_at_twice_the_size_are_as_unsure_as_the_largest_size_is_without_itself(ask, tmp_path):
    plain, _ = ask(PLANTED, tmp_path / "plain")
    slows, _ = ask(Slows(a=40.0, k1=0.8, k2=0.5, b=60.0), tmp_path / "slows")
    assert plain.laws["step_seconds"]["doubt"] < 0.1
    assert slows.laws["step_seconds"]["doubt"] == pytest.approx(2.0, rel=0.2)


def test_losses_held_out_lie_in_their_ranges_where_the_law_is_the_planted_one(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path)
    assert all(each["loss_inside"] and abs(each["loss_error"]) < 0.05 for each in answer.held_out)
    law = answer.laws["loss"]
    assert all(holds(law[f"{name}_range"], law[name]) for name in ("floor", "alpha", "beta"))


class Drops(FakeSizes):
    """The whole data give a third of the loss that less of them foretell."""

    def loss(self, num_parameters, num_samples):
        return super().loss(num_parameters, num_samples) * (1 / 3 if num_samples == self.num_samples else 1)


def test_a_law_of_the_loss_that_missed_what_was_held_out_foretells_none(ask, tmp_path):
    answer, _ = ask(Drops(a=40.0, k1=0.8, k2=0.5, b=60.0), tmp_path)
    assert (answer.next_data["loss_ratio"], answer.next_model["loss_ratio"]) == (None, None)
    assert any("the loss at twice the model or the data: its law missed 4 of 7" in each for each in answer.not_measured)


@pytest.mark.parametrize("k2", [0.0, 0.01])
def test_a_plateau_that_begins_below_the_smallest_size_is_told_as_passed(ask, tmp_path, k2):
    answer, _ = ask(replace(PLANTED, k2=k2, a=2.0), tmp_path)
    smallest = 32 * 16**2
    assert (answer.plateau, answer.plateau_range) == (smallest, (smallest, smallest))
    assert answer.plateau_passed
    assert not any("the plateau" in each for each in answer.not_measured)
    assert any("at the smallest size tried or below" in remark for _, _, remark in size_rows(answer))


def test_a_plateau_beyond_the_sizes_tried_is_open_and_larger_ones_would_tell(ask, tmp_path):
    answer, _ = ask(replace(PLANTED, b=0.0, k2=1.0, a=4000.0), tmp_path)
    assert (answer.plateau, answer.plateau_range[1]) == (None, None)
    (words,) = [each for each in answer.not_measured if "It takes larger --widths to tell" in each]
    assert not re.search(
        r"\de\+", words + "".join(remark for name, _, remark in size_rows(answer) if name == "plateau")
    )


@pytest.mark.parametrize(("k2", "word"), [(0.5, "fall"), (-0.3, "rise")])
def test_whether_updates_fall_with_the_size_is_said(ask, tmp_path, k2, word):
    fake = replace(PLANTED, k2=k2, a=40.0 if k2 > 0 else 0.3, b=0.0)
    answer, _ = ask(fake, tmp_path, vary="depth", depths=[4, 8, 16, 32])
    assert ("by depth", word) in [(name, value) for name, value, _ in size_rows(answer)]


def test_on_a_gpu_what_fits_is_judged_by_what_torch_may_take(ask, tmp_path):
    largest = 32 * 128**2
    total = 200_000_000 + 16 * 2 * largest + CONTEXT_BYTES
    for more, fits in ((2**20, True), (-(2**20), False)):
        host = plant_host(gpus=(plant_gpu(total_bytes=total + more),))
        answer, _ = ask(PLANTED, tmp_path / str(fits), device="cuda", host=host)
        assert answer.memory["next_fits"] is fits
        assert (answer.memory["next_card"], answer.memory["next_num_devices"]) == ("rtx3080-10gb", 1)


@pytest.mark.parametrize("slope", [-40.0, 3.0])
def test_where_memory_does_not_show_what_a_parameter_takes_that_is_open(ask, tmp_path, slope):
    answer, _ = ask(replace(PLANTED, bytes_per_parameter=slope), tmp_path)
    memory = answer.memory
    assert (memory["bytes_per_parameter"], memory["fixed_bytes"], memory["most_parameters"]) == (None, None, None)
    assert memory["next_bytes"] >= memory["peak_bytes"][128] + 8 * 32 * 128**2
    assert memory["next_fits"]
    (row,) = [row for row in size_rows(answer) if row[0] == "memory"]
    assert row[1:] == ("open", "these models are too small to show what a parameter takes; twice the largest fits")


def test_two_sizes_give_bytes_of_a_parameter_and_no_range(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path, widths=[64, 128])
    assert answer.memory["bytes_per_parameter"] == pytest.approx(16)
    assert (answer.memory["bytes_per_parameter_range"], answer.memory["next_bytes_range"]) == (None, None)
    assert ("memory", "16.0 bytes", "a parameter; twice the largest fits") in size_rows(answer)


def test_a_model_that_no_card_holds_is_shared_out(ask, tmp_path):
    fake = replace(PLANTED, unit=2_000_000, parameters_per_second=1e14)
    answer, _ = ask(fake, tmp_path, device="cuda", host=plant_host(gpus=(plant_gpu(),)))
    assert answer.memory["next_card"] == "b200-180gb"
    assert answer.memory["next_num_devices"] == -(-answer.memory["next_bytes"] // ((183359 - 528) * 2**20))
    assert any(f"{answer.memory['next_num_devices']} of them" in remark for _, _, remark in size_rows(answer))


def test_the_link_must_become_faster_by_what_gradients_grow_over_what_steps_do(ask, tmp_path):
    fast, _ = ask(replace(PLANTED, parameters_per_second=1e14), tmp_path / "fast")
    slow, _ = ask(replace(PLANTED, parameters_per_second=1e6), tmp_path / "slow")
    assert fast.next_model["link_speedup_needed"] == pytest.approx(2.0, rel=0.05)
    assert slow.next_model["link_speedup_needed"] == pytest.approx(1.0, abs=0.05)
    gradients = 4 * fast.next_model["num_parameters"]
    assert fast.next_model["link_bytes_per_second"] == pytest.approx(2 * gradients / (2 / 3 * 1e-4), rel=0.05)


def series(answer, name):
    (figure,) = [each for each in figures_of(answer) if each.name == name]
    return {each.name: each for each in figure.series}


def test_laws_are_dashes_with_a_band_what_was_held_out_is_rings_and_what_was_cut_short_crosses(ask, tmp_path):
    answer, _ = ask(replace(PLANTED, never_settles_above=700), tmp_path)
    for name, what in (("size-steps", "at least, its time was over"), ("size-loss", "at most, its time was over")):
        drawn = series(answer, name)
        law = drawn["25 % of the data: law"]
        assert (law.style, len(law.low), len(law.high)) == ("dashes", len(law.x), len(law.x))
        assert drawn["25 % of the data: measured"].style == "points"
        assert drawn["25 % of the data: held out"].style == "rings"
        seen = [each for each in drawn.values() if each.style in ("points", "rings")]
        assert sum(len(each.x) for each in seen) == sum(not each["at_least"] for each in answer.points)
        cut = [each for each in drawn.values() if each.style == "crosses"]
        assert sum(len(each.x) for each in cut) == sum(each["at_least"] for each in answer.points) > 0
        assert all(what in each.name for each in cut)
    assert "the whole data: measured" not in series(answer, "size-steps")


def test_the_figure_of_time_has_laws_with_bands_and_rings_and_curves_have_the_lengths_that_cooled_down(ask, tmp_path):
    answer, _ = ask(PLANTED, tmp_path)
    time = series(answer, "size-time")
    assert time["updates, held out"].style == "rings"
    for name in ("updates: law", "seconds a step: law"):
        assert time[name].style == "dashes"
        assert time[name].low
    curves = series(answer, "size-curves")
    whole = [each for each in answer.points if (each["width"], each["fraction"]) == (16, 1.0)]
    assert curves["width 16, seed 0: cooled down by then"].x == whole[0]["cooled_curve"]["steps"]


def test_answers_with_other_rules_of_the_rate_stand_beside_each_other(ask, tmp_path):
    fixed, _ = ask(PLANTED, tmp_path)
    scaled, _ = ask(PLANTED, tmp_path, rate_rule="mup")
    (table,) = [each for each in tables_of(scaled, [fixed]) if each.name == "size-rules"]
    assert [row[0] for row in table.rows] == ["mup", "fixed"]
