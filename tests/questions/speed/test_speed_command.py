"""`legroom speed` as a user runs it, on real processes."""

from pathlib import Path

import pytest

from legroom import api

JOBS = Path(__file__).parents[2] / "jobs"
KEYS = {
    "legroom_version", "job", "machine", "seconds", "notes", "not_measured", "knee_batch_size",
    "best_samples_per_second", "points", "law",
}  # fmt: skip


def test_one_json_object_with_the_promised_names(legroom):
    # Sizes are sought where a job raises above some, below; here each would be timed in three processes.
    words = ("--with", "hidden=8", "--device", "cpu", "--json", "--seconds", "1", "--batch-sizes", "8,64")
    ran = legroom("speed", "digits", *words)
    assert ran.code == 0, ran.stderr
    answer = ran.json
    assert set(answer) >= KEYS
    assert [point["batch_size"] for point in answer["points"]] == [8, 64]
    assert answer["range"][0] <= answer["knee_batch_size"] <= answer["range"][1]
    for point in answer["points"]:
        assert {"batch_size", "median_seconds", "samples_per_second", "utilisation"} <= set(point)
    assert 1 <= len(answer["law"]["sizes"]) <= 4
    assert ran.stderr == ""


@pytest.mark.parametrize("name", ["uneven", "gan", "carried_state", "convnet", "iterable"])
def test_kinds_of_jobs_answer(tmp_path, forking, name):
    # The detailed look asks the same of a job as the first one, in more processes: two kinds have both.
    looks = {"seconds": 1.0} if name in ("uneven", "gan") else {"quick": True}
    run = api.Run(out=tmp_path)
    answer = api.speed(f"{JOBS / name}.py:job", device="cpu", batch_sizes=(2, 4), run=run, **looks)
    assert [point["batch_size"] for point in answer.points] == [2, 4]
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--batch-sizes", "8;16"), "Write whole numbers with commas"),
        (("--batch-sizes", "0"), "sizes are from 1"),
        (("--rule", "guess"), "Known: throughput, utilisation"),
        (("--share", "2"), "--share is 2"),
        (("--device", "cuda"), "there is no GPU here"),
    ],
)
def test_wrong_words_are_told_with_the_way_forward(legroom_here, words, says):
    ran = legroom_here("speed", "digits", *words, env={"CUDA_VISIBLE_DEVICES": ""})
    assert ran.code == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_job_that_raises_is_told_with_its_batch_size(legroom_here, forking):
    job = f"{JOBS / 'bad' / 'loss_vector.py'}:job"
    ran = legroom_here("speed", job, "--device", "cpu", "--batch-sizes", "4", "--quick")
    assert ran.code == 1
    assert "At a batch of 4" in ran.stderr


def test_a_job_that_raises_above_some_size_is_answered_up_to_it(legroom_here, forking):
    job = f"{JOBS / 'bad' / 'raises_at_batch.py'}:job"
    ran = legroom_here("speed", job, "--device", "cpu", "--json", "--quick")
    assert ran.code == 0, ran.stderr
    assert ran.json["largest_batch_size"] == 64
    assert "at most 64 samples" in ran.json["largest_because"]


def test_dry_run_lists_probes_and_runs_none(legroom_here, one_folder):
    ran = legroom_here("speed", "digits", "--device", "cpu", "--dry-run", "--json")
    assert len(ran.json["probes"]) == 5
    assert not (one_folder / "legroom-out").exists()
