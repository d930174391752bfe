"""Published times as input: what they say is recomputed, and what cannot be true is told."""

from pathlib import Path

import pytest

from legroom import api
from legroom.errors import UsageError
from legroom.questions.devices.ask import foresee

LAB = Path(__file__).parents[3] / "examples" / "k80_lab.csv"


@pytest.fixture(scope="module")
def lab():
    """The lab report of the examples."""
    return api.devices(from_table=LAB)


def test_latency_and_bandwidth_alone_bracket_the_small_batches_and_just_miss_the_large_one(lab):
    inside = {row["batch_size"]: row["inside"] for row in lab.forecasts}
    assert inside == {32: True, 128: True, 512: False}
    far = next(row for row in lab.forecasts if row["batch_size"] == 512)
    assert 0 < far["outside_share"] < 0.06
    assert any("outside" in note for note in lab.notes)


def test_times_above_the_cards_peak_are_told_and_a_possible_one_is_not(lab):
    told = {(row["table"], row["batch_size"]) for row in lab.throughputs if row["peak_share"] > 1}
    assert told == {(table, size) for table in ("Q1", "Q2") for size in (128, 512)}
    assert sum("cannot be true" in note for note in lab.notes) == 4


def test_the_scaling_is_named_right_and_strong_scaling_read_from_it_is_a_slowdown(lab):
    assert {row["scaling"] for row in lab.points} == {"weak"}
    assert any(note.startswith("This is weak scaling") for note in lab.notes)
    assert next(row for row in lab.strong if row["global_batch"] == 128)["speedup"] == pytest.approx(0.5976, rel=1e-3)


def test_the_one_gpu_time_that_communication_subtracts_is_called_out(lab):
    assert {row["subtracts"] for row in lab.communication} == {"Q1"}
    two = next(row for row in lab.communication if (row["num_devices"], row["batch_size"]) == (2, 32))
    assert two["same_table_seconds"]["Q2"] == pytest.approx(44.222406 - 62.661095 / 2)
    assert any("with T_1 of Q1, not of Q2" in note for note in lab.notes)


def test_the_published_bandwidths_are_recomputed_in_both_units(lab):
    two = next(row for row in lab.communication if (row["num_devices"], row["batch_size"]) == (2, 32))
    assert two["gb_per_second"] == pytest.approx(two["published_bandwidth"], rel=1e-6)
    assert two["gib_per_second"] == pytest.approx(two["gb_per_second"] / 1.073741824)
    assert {row["published_unit"] for row in lab.communication} == {"GB/s"}


def test_a_published_speedup_that_its_own_times_do_not_give_is_told(lab):
    assert [note for note in lab.notes if "not that of its own times" in note] != []
    assert sum("not that of its own times" in note for note in lab.notes) == 1


def test_the_same_job_timed_twice_far_apart_is_told(lab):
    assert any("batch of 32" in note and "26% apart" in note for note in lab.notes)


GOOD = "# num_samples = 100\n# num_parameters = 10\ntable,num_devices,batch_size,seconds\nA,1,10,5.0\n"
BAD = [
    (GOOD + "A,2,10,fast\n", "line 5: seconds is 'fast'"),
    (GOOD + "A,2,10\n", "line 5: 3 values for 4 columns"),
    (GOOD + "A,1.5,10,2\n", "line 5: num_devices is 1.5"),
    (GOOD + "A,2,10,-1\n", "line 5: seconds"),
    (GOOD.replace("batch_size,", ""), "line 3: no column batch_size"),
    (GOOD.replace("# num_samples = 100\n", ""), "does not say num_samples"),
    (GOOD.replace("= 100", "= many"), "line 1: num_samples"),
    ("# num_samples = 100\n# num_parameters = 10\n", "holds no times"),
    (GOOD.replace("A,1,10,5.0\n", ""), "has a row of names and no times"),
    (GOOD.replace("A,1,10,5.0", "A,2,10,5.0"), "has no time of one device"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[said for _, said in BAD])
def test_a_table_that_cannot_be_read_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        api.devices(from_table=path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"job": "char-lm"}, "no use for JOB. Leave it out"),
        ({"link": "10GbE", "most": 4}, "no use for --max, --link. Leave them out"),
        ({"speeds": [1.0, 1.0]}, "--speeds"),
        ({"run": api.Run(out=Path("elsewhere"))}, "--out"),
    ],
)
@pytest.mark.parametrize("ask", [api.devices, foresee])
def test_words_about_a_run_are_refused_beside_a_table(ask, words, said):
    with pytest.raises(UsageError, match=said):
        ask(from_table=LAB, **words)


def test_a_table_has_the_names_of_an_answer_and_is_foreseen_to_run_nothing(lab):
    told = lab.to_json()
    assert [told[name] for name in ("num_devices", "bandwidth_bytes_per_second", "latency_seconds")] == [None] * 3
    assert told["wire"] == []
    row = next(row for row in lab.points if (row["table"], row["num_devices"], row["batch_size"]) == ("Q2", 2, 32))
    assert row["epoch_difference_seconds"] == pytest.approx(44.222406 - 62.661095 / 2)
    assert row["difference_seconds"] == pytest.approx(row["step_seconds"] - 62.661095 / (50_000 / 32))
    assert foresee(from_table=LAB).probes == []


def test_a_table_of_strong_scaling_has_points_and_a_bandwidth_that_is_no_units_is_told(tmp_path):
    path, names = tmp_path / "table.csv", "table,num_devices,batch_size,seconds,communication_seconds,bandwidth\n"
    head = GOOD.split("table,")[0] + names
    path.write_text(head + "A,1,40,8.0,,\nA,2,20,5.0,1.0,12345\nA,4,10,4.0,,\n")
    answer = api.devices(from_table=path)
    assert [(row["scaling"], row["speedup"]) for row in answer.points] == [("strong", 1.6), ("strong", 2.0)]
    assert answer.points[0]["difference_seconds"] == pytest.approx((5.0 - 8.0 / 2) / (100 / 40))
    assert any(note.startswith("Published bandwidths are neither GB/s") for note in answer.notes)
    path.write_text(GOOD + "A,2,7,3.0\n")
    assert any("nothing to compare" in note for note in api.devices(from_table=path).notes)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        api.devices(from_table=tmp_path / "none.csv")


def test_planted_links_of_latency_or_bandwidth_alone_lie_on_their_side(tmp_path):
    for factor, key in ((3.0, "latency_only_seconds"), (1.5, "bandwidth_only_seconds")):
        rows = [("A", 1, 10, 10.0), ("A", 2, 10, 5 * 1.2), ("A", 4, 10, 2.5 * (1 + 0.2 * factor))]
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        path = tmp_path / "table.csv"
        path.write_text(GOOD.replace("A,1,10,5.0\n", "") + text)
        (row,) = api.devices(from_table=path).forecasts
        assert row[key] == pytest.approx(row["seconds"])
