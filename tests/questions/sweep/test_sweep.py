"""A sweep over planted runs finds the planted point, marks what failed, and repeats nothing."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.errors import JobRaised, OutOfMemory, UsageError
from legroom.logbook import read_records
from legroom.questions.sweep.ranges import read_rates, read_sizes
from legroom.questions.sweep.records import SweepQuestion
from legroom.questions.sweep.search import limits_of
from legroom.questions.sweep.view import section
from legroom.session import advise_again
from legroom.testing import FakeMachine, FakeRuns, plant_gpu, plant_host
from legroom.training.records import Train

SIZES, RATES = (8, 16, 32, 64), (1e-3, 1e-2, 1e-1)


def swept(tmp_path, machine, **words):
    run_words = {name: words.pop(name) for name in ("resume", "host") if name in words}
    given = {"batch_sizes": SIZES, "rates": RATES, "device": "cpu"} | words
    run = api.Run(out=tmp_path, engine=machine, clock=machine.clock, **run_words)
    return api.sweep("digits", run=run, **given)


class Planted(FakeRuns):
    """Runs that score highest at a point, and lose by their distance from it in factors of ten."""

    def __init__(self, best_point=None, diverges_above=math.inf, runs_out_above=math.inf):
        super().__init__(loss=self._loss)
        self.best_point, self.diverges_above, self.runs_out_above = best_point, diverges_above, runs_out_above

    def _loss(self, request, num_steps):
        if self.best_point is None:
            return 0.5
        point = (request.settings["batch_size"], request.settings["learning_rate"])
        far = sum(abs(math.log10(one / best)) for one, best in zip(point, self.best_point, strict=True))
        return 1 - 0.5 / (1 + far)

    def train(self, request):
        if request.settings["batch_size"] > self.runs_out_above:
            raise OutOfMemory("does not fit (planted)")
        trained = super().train(request)
        diverges = request.settings["learning_rate"] > self.diverges_above
        return replace(trained, stopped_because="diverged", evaluations=[]) if diverges else trained


def machine_with(**planted):
    return FakeMachine(runs=Planted(**planted), num_samples=1000)


@pytest.mark.parametrize("point", [(8, 1e-2), (32, 1e-1), (64, 1e-3)])
def test_the_planted_best_point_is_found_and_advised_again(tmp_path, point):
    answer = swept(tmp_path, machine_with(best_point=point))
    assert (answer.best["batch_size"], answer.best["learning_rate"]) == point
    assert [(each.name, each.value) for each in answer.recommendations] == [
        ("batch_size", point[0]),
        ("learning_rate", point[1]),
    ]
    assert len(answer.points) == 12
    assert answer.num_samples == sum(each["num_samples"] for each in answer.points)
    assert advise_again(tmp_path, "sweep") == answer


def test_every_point_has_what_scripts_rely_on(tmp_path):
    answer = swept(tmp_path, machine_with())
    names = (
        "batch_size",
        "learning_rate",
        "score",
        "seconds",
        "utilisation",
        "num_steps",
        "num_samples",
        "memory_bytes",
    )
    for point in answer.points:
        assert all(point[name] is not None for name in names)


def test_trials_that_find_no_memory_are_marked_and_the_others_go_on(tmp_path):
    machine = machine_with(runs_out_above=32, best_point=(16, 1e-2))
    answer = swept(tmp_path, machine)
    marked = [point for point in answer.points if point["failure"]]
    assert {point["batch_size"] for point in marked} == {64}
    assert {point["stopped_because"] for point in marked} == {"out_of_memory"}
    assert answer.num_failed == 3
    assert answer.best["batch_size"] == 16
    assert any("3 of 12 trials failed" in note for note in answer.notes)
    again = swept(tmp_path, other := machine_with(), resume=True)
    assert not [request for request in other.asked if isinstance(request, Train)]
    assert again.points == answer.points


def test_trials_that_diverge_count_as_far_as_they_ran(tmp_path):
    answer = swept(tmp_path, machine_with(diverges_above=0.05))
    diverged = [point for point in answer.points if point["stopped_because"] == "diverged"]
    assert {point["learning_rate"] for point in diverged} == {0.1}
    assert all(point["score"] is None and point["num_samples"] > 0 for point in diverged)
    assert answer.best["learning_rate"] < 0.1
    assert any("diverged, at rates from 0.1 on" in note for note in answer.notes)


def test_where_every_trial_diverges_the_answer_says_so_first_and_names_a_way(tmp_path):
    answer = swept(tmp_path, machine_with(diverges_above=0.0))
    assert answer.best is None
    assert section(answer).summary == "All trials diverged."
    assert any("Name lower --rates" in note for note in answer.notes)


def test_where_every_trial_fails_the_first_failure_is_told(tmp_path):
    with pytest.raises(OutOfMemory, match=r"Every one of 12 trials failed.*does not fit"):
        swept(tmp_path, machine_with(runs_out_above=1))


def test_a_sweep_that_was_stopped_goes_on_and_repeats_no_trial(tmp_path):
    class Dies(FakeRuns):
        num_left = 5

        def train(self, request):
            self.num_left -= 1
            if self.num_left < 0:
                raise KeyboardInterrupt
            return super().train(request)

    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, FakeMachine(runs=Dies(), num_samples=1000))
    machine = machine_with()
    answer = swept(tmp_path, machine, resume=True)
    assert len([request for request in machine.asked if isinstance(request, Train)]) == 12 - 5
    assert len(answer.points) == 12


def test_each_trial_has_a_fresh_child_and_all_are_closed(tmp_path):
    machine = machine_with()
    swept(tmp_path, machine)
    assert machine.num_started == machine.num_closed == 1 + 12


def test_trials_at_once_keep_the_users_own_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    machine = machine_with()
    answer = swept(tmp_path, machine, together=3, host=plant_host(num_cores=6))
    assert not any(request.environment for request in machine.asked if isinstance(request, Train))
    assert not any("OMP_NUM_THREADS" in note for note in answer.notes)


def test_several_at_once_come_to_the_same_points_with_their_share_of_the_cores(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    one = swept(tmp_path / "one", machine_with(best_point=(16, 1e-2)))
    machine = machine_with(best_point=(16, 1e-2))
    many = swept(tmp_path / "many", machine, together=3, host=plant_host(num_cores=6))
    assert many.points == one.points
    threads = {request.environment["OMP_NUM_THREADS"] for request in machine.asked if isinstance(request, Train)}
    assert threads == {"2"}
    assert any("3 trials ran at once, each with OMP_NUM_THREADS=2" in note for note in many.notes)


def test_sizes_above_the_data_are_left_out_and_told(tmp_path):
    answer = swept(tmp_path, FakeMachine(num_samples=40))
    assert {point["batch_size"] for point in answer.points} == {8, 16, 32}
    assert "Batches of 64: the data has fewer samples" in answer.not_measured
    with pytest.raises(UsageError, match="more than the 5 samples"):
        swept(tmp_path / "none", FakeMachine(num_samples=5))


def test_figures_show_the_grid_with_the_best_point_framed(tmp_path):
    answer = swept(tmp_path, machine_with(best_point=(32, 1e-2)))
    figures = {figure.name: figure for figure in section(answer).figures}
    heat = figures[f"sweep-{answer.watch}-grid"].heat
    assert heat.chosen == ("32", "0.01")
    assert heat.values[1][2] == min(min(row) for row in heat.values) == answer.best[answer.watch]
    assert {"sweep-seconds-grid", "sweep-utilisation", "sweep-memory_bytes", "sweep-rates"} <= set(figures)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"rates": (-0.1,)}, "--rates names -0.1; it must be a positive number"),
        ({"batch_sizes": (0,)}, "--batch-sizes names 0"),
        ({"workers": (-1,)}, "--workers names -1"),
        ({"patience": 0}, "--patience is 0"),
        ({"together": 99}, "there are 2 cores"),
        ({"seconds": 0.0}, "--seconds is 0"),
        ({"epochs": 0}, "--epochs is 0"),
        ({"rates": ()}, "--rates names none"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_started(tmp_path, words, told):
    machine = machine_with()
    with pytest.raises(UsageError, match=told):
        swept(tmp_path, machine, host=plant_host(num_cores=2), **words)
    assert machine.num_started == 0


@pytest.mark.parametrize("text", ["", "a", "8..", "16..8", "1..nan", "1e-5..1e400", "5..6..7"])
def test_ranges_that_make_no_sense_are_refused(text):
    with pytest.raises(UsageError, match="--rates"):
        read_rates(text)


def test_a_single_value_is_called_no_range_and_a_negative_one_is_no_empty_list():
    with pytest.raises(UsageError, match="--rates names 'nan', which is no finite number"):
        read_rates("0.1,nan")
    assert read_rates("-1") == (-1.0,), "which is refused for what it is"


def test_ranges_double_and_go_by_decades():
    assert read_sizes("512..16384") == (512, 1024, 2048, 4096, 8192, 16384)
    assert read_rates("1e-5..1e-1") == (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    with pytest.raises(UsageError, match="more than 64"):
        read_rates("1e-300..1")


def test_dry_run_names_the_trials_and_runs_none(tmp_path):
    words = ["sweep", "digits", "--batch-sizes", "32..128", "--rates", "0.01,0.1", "--dry-run", "--json"]
    result = CliRunner().invoke(app, [*words, "--seconds", "5", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert '"num_probes": [6, 6]' in " ".join(result.stdout.split())
    assert not list(tmp_path.iterdir())


def test_an_error_that_is_a_fault_of_ours_is_not_taken_for_a_failed_trial(tmp_path):
    class Broken(FakeRuns):
        def train(self, request):
            raise AssertionError("ours")

    with pytest.raises(AssertionError, match="ours"):
        swept(tmp_path, FakeMachine(runs=Broken(), num_samples=1000))


def test_a_failure_of_the_job_is_a_marked_point(tmp_path):
    class Raises(FakeRuns):
        def train(self, request):
            if request.settings["batch_size"] == 8:
                raise JobRaised("model said no")
            return super().train(request)

    answer = swept(tmp_path, FakeMachine(runs=Raises(), num_samples=1000))
    assert {point["failure"] for point in answer.points if point["batch_size"] == 8} == {"model said no"}


class Placing(FakeMachine):
    """A machine that notes which card each of its children sees."""

    cards: tuple[str, ...] = ()

    def start(self, address, environment, *, alone=False):
        self.cards = (*self.cards, environment.get("CUDA_VISIBLE_DEVICES", ""))
        return super().start(address, environment, alone=alone)


@pytest.mark.parametrize(("uuids", "seen"), [(("GPU-a", "GPU-b"), {"GPU-a", "GPU-b"}), (("GPU-a",), {""})])
def test_trials_at_once_are_shared_out_over_the_cards(tmp_path, uuids, seen):
    cards = tuple(replace(plant_gpu(), uuid=uuid, index=place) for place, uuid in enumerate(uuids))
    machine = Placing(runs=Planted(), num_samples=1000)
    swept(tmp_path, machine, device="cuda", together=2, host=plant_host(gpus=cards))
    assert set(machine.cards[1:]) == seen


def test_sweeps_of_two_devices_lie_in_one_figure_and_nothing_is_drawn_of_what_one_lacks(tmp_path):
    mine = swept(tmp_path, machine_with())
    idle = [{**point, "utilisation": 0.0, "memory_bytes": None} for point in mine.points]
    other = replace(mine, device="cuda", machine="another", points=idle)
    figures = {figure.name: figure for figure in section(mine, [other]).figures}
    busy, memory = figures["sweep-utilisation"].series, figures["sweep-memory_bytes"].series
    assert [series.name for series in busy] == [f"cpu fp32, {mine.machine}", "cuda fp32, another"]
    assert set(busy[1].y) == {0.0}
    assert set(memory[1].y) == {None}
    assert [series.name for series in memory] == [series.name for series in busy]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_trial_joins_others_only_where_memory_is_known_to_hold_both(tmp_path, device):
    answer = swept(tmp_path, machine_with())
    records = read_records(tmp_path, "sweep")
    made = TypeAdapter(SweepQuestion).validate_python(records.head.question)
    question = replace(made, device=device, together=2)
    entries = [replace(entry, request=replace(entry.request, device=device)) for entry in records.entries[1:]]
    largest, needed = question.trials()[0], max(point["memory_bytes"] for point in answer.points)

    def may_join(free_bytes, seen):
        card = replace(plant_gpu(), free_bytes=free_bytes)
        host = plant_host(available_bytes=round(free_bytes / 0.9), gpus=(card,) if device == "cuda" else ())
        session = SimpleNamespace(host=host, records=SimpleNamespace(entries=seen))
        return limits_of(session, question).may_join(largest, [largest])

    context = 600 * 2**20 if device == "cuda" else 0
    assert may_join(2.02 * (needed + context), entries)
    assert not may_join(1.98 * (needed + context), entries)
    assert not may_join(1e15, []), "nothing is known of a trial's memory yet"
