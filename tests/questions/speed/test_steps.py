"""The child's side of `legroom speed`: real steps, in this process."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

import legroom
from legroom.child.built_job import BuiltJob
from legroom.child.step_timer import open_timer
from legroom.job_address import address_of
from legroom.questions.speed.child.detailed import count_flops
from legroom.questions.speed.child.nvml import GpuMonitor, Reading, load_of
from legroom.questions.speed.child.padding import measure_padding
from legroom.questions.speed.child.steps import time_steps
from legroom.questions.speed.child.subject import NUM_UNEVEN, Subject
from legroom.questions.speed.notes import losses
from legroom.questions.speed.records import MeasurePadding, TimeSteps

SHORT = {"device": "cpu", "seconds": 1.0, "min_rounds": 2}


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that spin for each other make tiny steps a hundred times slower on busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("more", [{}, {"run": 1}], ids=["in rounds", "rising"])
def test_a_loss_that_is_no_number_is_told_and_the_times_hold(more):
    job = str(Path(__file__).parents[2] / "jobs" / "{}.py:job")
    request = TimeSteps(batch_sizes=(8,), **SHORT, **more)
    for name, is_finite in (("bad/loss_nan", False), ("plain", True)):
        (point,) = time_steps(request, BuiltJob(address_of(job.format(name)))).points
        assert point.median_seconds > 0
        assert point.has_finite_loss == is_finite
    assert list(losses([point])) == []
    (note,) = losses([replace(point, has_finite_loss=False)])
    assert "no finite number in the end at batches of 8" in note


class Hungry(nn.Module):
    """Runs out of memory above 64 samples, and cannot train on one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 2))

    def forward(self, rows):
        if len(rows) > 64:
            raise torch.OutOfMemoryError("planted")
        return self.layers(rows)


def hungry():
    return legroom.Job(
        model=Hungry,
        train_data=lambda: torch.utils.data.TensorDataset(torch.rand(200, 8), torch.zeros(200, dtype=torch.long)),
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )


def words():
    lengths = [4 + index % 3 if index % 10 else 60 for index in range(100)]
    return legroom.Job(
        model=lambda: nn.EmbeddingBag(10, 4),
        train_data=lambda: [torch.zeros(length, dtype=torch.long) for length in lengths],
        collate=lambda samples: pad_sequence(samples, batch_first=True),
        loss=lambda model, batch: model(batch).mean(),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )


def test_every_size_is_timed_with_its_interval_shares_and_load():
    found = time_steps(TimeSteps(batch_sizes=(2, 64), close=True, **SHORT), BuiltJob(address_of("digits")))
    for point in found.points:
        assert point.outcome == "measured"
        assert 0 < point.interval[0] <= point.median_seconds <= point.interval[1]
        assert point.num_rounds >= 1
        assert set(point.shares) == {"forward", "backward", "update"}
        assert sum(point.shares.values()) == pytest.approx(1)
        assert 0 < point.load.utilisation <= 1
        assert 0 < point.peak_bytes < point.available_bytes
    assert found.uncounted == ["mkldnn_rnn_layer"] or found.flops_per_sample > 0


def test_a_step_is_built_with_the_options_asked_for_and_the_next_one_without_them():
    built = BuiltJob(address_of(hungry))
    for options in ({"fused": True}, {}):
        request = TimeSteps(batch_sizes=(4,), options=options, **SHORT)
        step = Subject(4, request, built, open_timer(torch.device("cpu"))).step
        assert bool(step.optimizer.param_groups[0]["fused"]) == bool(options)
        assert step.settings.fused == bool(options)


@pytest.mark.parametrize(("run", "seconds"), [(0, 0.01), (1, 0.02)])
def test_a_fresh_process_counts_its_slow_steps_as_a_plain_loop_does(monkeypatch, run, seconds):
    timer = open_timer(torch.device("cpu"))
    monkeypatch.setattr(timer, "time", lambda step, num: [0.01] * (num - 1) + [0.01 if num == 1 else 0.01 * (num + 1)])
    request = TimeSteps(batch_sizes=(4,), run=run, **SHORT)
    assert Subject(4, request, BuiltJob(address_of("digits")), timer).visit() == pytest.approx(seconds)


def wide():
    return legroom.Job(
        model=lambda: nn.Sequential(nn.Linear(8, 1024), nn.ReLU(), nn.Linear(1024, 2)),
        train_data=lambda: torch.utils.data.TensorDataset(torch.rand(200, 8), torch.zeros(200, dtype=torch.long)),
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
    )


def test_the_peak_of_a_size_is_its_own_whatever_else_its_process_times():
    request, built = TimeSteps(device="cpu", batch_sizes=(4096, 64), seconds=0.2, run=1), BuiltJob(address_of(wide))
    (alone,) = time_steps(replace(request, batch_sizes=(64,)), built).points
    large, small = time_steps(request, built).points
    more = large.peak_bytes - alone.peak_bytes
    assert more > 2 * 4096 * 1024 * 4, "two layers of that width are kept for the backward pass"
    assert small.peak_bytes < alone.peak_bytes + 0.1 * more


def test_a_size_that_does_not_fit_leaves_the_others_as_they_are():
    found = time_steps(TimeSteps(batch_sizes=(8, 128, 32), **SHORT), BuiltJob(address_of(hungry)))
    assert [point.outcome for point in found.points] == ["measured", "out_of_memory", "measured"]
    assert found.points[0].median_seconds > 0


def test_operations_are_counted_as_two_for_each_product_and_sum():
    layer, rows = nn.Linear(32, 16, bias=False), torch.rand(8, 32)
    flops, uncounted = count_flops(lambda: layer(rows))
    assert flops == 2 * 8 * 32 * 16
    assert uncounted == []


def test_batches_of_like_length_hold_less_padding():
    seen = measure_padding(MeasurePadding(batch_size=10), BuiltJob(address_of(words)))
    assert seen.sample_bytes <= seen.bucketed_bytes < 0.5 * seen.shuffled_bytes
    assert seen.sample_bytes <= seen.budget_bytes <= seen.shuffled_bytes


def bert_like():
    """Sentences of 14 and of 100 words, half of each; the mask and the types of words are made by the collation."""

    def collate(samples):
        ids = pad_sequence([torch.tensor(sample["input_ids"]) for sample in samples], batch_first=True)
        labels = torch.tensor([sample["label"] for sample in samples])
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": 0 * ids, "labels": labels}

    data = [{"input_ids": [1] * (14 if place % 2 else 100), "label": place % 2} for place in range(200)]
    return replace(words(), train_data=lambda: data, collate=collate, sample_size=None)


def test_padding_is_a_share_of_words_however_many_tensors_hold_a_place_for_each():
    seen = measure_padding(MeasurePadding(batch_size=64), BuiltJob(address_of(bert_like)))
    assert seen.share == pytest.approx(0.43, abs=0.03)  # a batch has 100 places for (14 + 100) / 2 words
    num_words = seen.num_places // 3
    assert seen.num_shuffled_places == 3 * 100 * seen.num_samples
    assert seen.sample_bytes == 8 * (3 * num_words + seen.num_samples)


def test_uneven_samples_are_timed_as_a_run_draws_them():
    request, built = TimeSteps(batch_sizes=(4, 16), **SHORT), BuiltJob(address_of(words))
    placed = Subject(4, request, built, open_timer(torch.device("cpu"))).place()
    widths = {batch.shape[1] for batch in itertools.islice(placed, NUM_UNEVEN)}
    assert min(widths) < 10 < 60 == max(widths), "some batches hold a long sample, and some hold none"
    assert [point.outcome for point in time_steps(request, built).points] == ["measured", "measured"]


def test_without_nvml_the_monitor_says_why():
    monitor = GpuMonitor("GPU-none")
    load = monitor.watch(lambda: None, 1)
    assert "NVML did not answer" in monitor.why_not
    assert load.utilisation is None


def test_energy_comes_from_the_counter_or_else_from_power():
    readings = [Reading(0.9, 0.5, 200.0, 1.5e9, False), Reading(1.0, 0.7, 300.0, 1.5e9, True)]
    counted, by_power = load_of(readings, 40.0, 2.0, 100), load_of(readings, None, 2.0, 100)
    assert counted.joules_per_sample == 0.4
    assert by_power.joules_per_sample == 250 * 2 / 100
    assert counted.utilisation == pytest.approx(0.95)
    assert counted.throttled
