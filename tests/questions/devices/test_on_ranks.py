"""What runs beside torch: buckets as torch's own, gradients as they come, and two real processes."""

import contextlib
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from legroom import api
from legroom.child.built_job import BuiltJob
from legroom.child.description import describe
from legroom.child.ranks import run_ranks
from legroom.job_address import JobAddress, address_of
from legroom.laws.communication import buckets_of
from legroom.questions.devices.child.backward import time_backward
from legroom.questions.devices.child.ranks import time_ranks, time_wrapped, turn
from legroom.questions.devices.records import BackwardTimes, TimeBackward, TimeRanks, TimeWrapped
from legroom.questions.devices.wire import buffers_off, wire_rows
from legroom.requests import Describe
from legroom.training.loop import Run
from legroom.training.records import Train
from legroom.training.several_ranks import SeveralRanks

JOBS = Path(__file__).parents[2] / "jobs"


@pytest.fixture
def alone():
    """A process group of one."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize(("width", "cap_mb"), [(64, None), (400, None), (400, 25.0), (700, 1.0), (700, 4.0)])
def test_buckets_are_those_that_torch_fills(alone, width, cap_mb):
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(5)))
    wrapped = DistributedDataParallel(model, bucket_cap_mb=cap_mb)
    order = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda each, name=name: order.append(name))
    for _ in range(3):  # torch fills them anew by the order of the first backward pass
        order.clear()
        wrapped(torch.randn(2, width)).sum().backward()
    sizes = [4 * dict(model.named_parameters())[name].numel() for name in order]
    ours = [bucket.num_bytes for bucket in buckets_of(sizes, list(range(len(sizes))), cap_mb)]
    told = wrapped._get_ddp_logging_data()["rebuilt_bucket_sizes"]
    assert ours == [int(size) for size in told.split(",")]


def look(name, batch_size=16):
    built = BuiltJob(address_of(f"{JOBS / name}.py:job"))
    return time_backward(TimeBackward(device="cpu", batch_size=batch_size, precision="fp32", num_threads=1), built)


@pytest.mark.parametrize(("name", "carries"), [("carried_state", True), ("plain", False), ("token_counts", False)])
def test_batches_that_go_on_where_others_ended_are_described(name, carries):
    built = BuiltJob(address_of(f"{JOBS / name}.py:job"))
    assert describe(Describe(), built).carries_state is carries


def test_gradients_are_ready_from_the_last_layer_to_the_first_within_the_pass():
    times = look("plain")
    assert sum(times.gradient_bytes) == times.parameter_bytes == 4 * (32 * 64 + 64 + 64 * 4 + 4)
    assert list(times.ready_seconds) == sorted(times.ready_seconds)
    assert 0 < times.ready_seconds[0] <= times.ready_seconds[-1] <= times.backward_seconds
    assert {4 * 64 * 4, 4 * 4} == set(times.gradient_bytes[:2]), "the last layer first"
    assert times.flops_per_sample == 2 * (2 * 32 * 64) + 3 * (2 * 64 * 4), "inputs of the first layer need no gradient"


def test_batchnorms_buffers_are_told_and_frozen_weights_never_travel():
    times = look("convnet")
    assert list(times.norm_features) == [8, 16]
    assert times.buffer_bytes == 4 * 2 * (8 + 16) + 8 * 2
    assert times.num_buffer_messages == 2
    assert list(times.other_buffers) == []
    frozen = look("frozen")
    assert sum(frozen.gradient_bytes) < frozen.parameter_bytes
    assert list(frozen.unused_parameters) == []


class Counting(nn.Module):
    """A queue that moves in every tenth pass."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 4)
        self.register_buffer("queue", torch.zeros(1))
        self.num_passes = 0

    def forward(self, data):
        self.num_passes += 1
        if self.num_passes % 10 == 0:
            self.queue += 1
        return self.inner(data)


def test_a_buffer_that_few_steps_change_is_found(monkeypatch):
    monkeypatch.syspath_prepend(JOBS)
    import plain

    built = BuiltJob(address_of(lambda: replace(plain.job(), model=Counting)))
    found = time_backward(TimeBackward(device="cpu", batch_size=16, precision="fp32", num_threads=1), built)
    assert found.num_watched > 10
    assert list(found.other_buffers) == ["queue"]
    assert buffers_off(replace(found, buffer_bytes=4))[0] is False


@pytest.mark.filterwarnings("ignore:.broadcast_buffers. is deprecated:FutureWarning")
def test_a_look_tells_the_bytes_and_messages_of_the_table(alone, monkeypatch):
    monkeypatch.syspath_prepend(JOBS)
    import plain

    sent, looks, job = [], [], plain.job()

    def counted(real):
        return lambda tensor, *args: (sent.append(tensor.numel() * tensor.element_size()), real(tensor, *args))[1]

    for name in ("all_reduce", "broadcast"):
        monkeypatch.setattr(distributed, name, counted(getattr(distributed, name)))
    request = Train(device="cpu", settings=asdict(job.baseline), num_steps=3)
    run = Run(job, request, job.train_data(), None, ranks=SeveralRanks(0, 1, torch.device("cpu")))
    pause = run._pause
    monkeypatch.setattr(run, "_pause", lambda: (looks.append(len(sent)), pause(), looks.append(len(sent)))[1])
    run.go()
    first = sent[looks[0] : looks[1]]
    facts = BackwardTimes(gradient_bytes=[4], ready_seconds=[0.1])
    row = next(each for each in wire_rows(facts, SimpleNamespace(bucket_cap_mb=None), 2) if each["what"] == "metrics")
    assert (row["num_messages"], row["num_bytes"]) == (len(first), sum(first))


def test_two_real_processes_are_timed_and_forecast(tmp_path):
    answer = api.devices(
        f"{JOBS / 'plain.py'}:job", device="cpu", measured=2, scaling="weak", run=api.Run(out=tmp_path)
    )
    two = next(point for point in answer.points if point["num_devices"] == 2)
    assert not two["predicted"]
    assert two["step_seconds"] > 0
    assert two["forecast_seconds"] > two["forecast_exposed_seconds"] > 0
    assert len(two["utilisation"]) == 2
    assert answer.bandwidth_bytes_per_second > 0
    assert answer.messages


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_one_gpu_is_timed_as_a_rank_of_one_and_its_backward_pass_by_its_own_clock():
    built = BuiltJob(address_of(f"{JOBS / 'convnet.py'}:job"))
    alone = time_backward(TimeBackward(device="cuda", batch_size=16, precision="fp32", num_threads=1), built)
    assert 0 < alone.ready_seconds[0] <= alone.ready_seconds[-1] <= alone.backward_seconds
    words = {"batch_sizes": [16], "message_bytes": [2**20, 2**24], "bucket_bytes": [2**20], "seconds": 0.5}
    request = TimeRanks(device="cuda", num_devices=1, precision="fp32", num_threads=1, **words)
    timed = time_ranks(request, built)
    assert timed.backend == "nccl"
    assert timed.steps[0].utilisation == [], "what a process uses of its cores is not what a GPU does"
    assert timed.steps[0].sync_seconds > 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_one_process_is_timed_with_and_without_sync(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    built = BuiltJob(address_of(f"{JOBS / 'convnet.py'}:job"))
    found = time_wrapped(TimeWrapped(device=device, batch_size=16, precision="fp32", num_threads=1), built)
    assert found.backend == {"cpu": "gloo", "cuda": "nccl"}[device]
    assert 0 <= found.exposed_seconds <= found.sync_seconds
    assert found.num_repeats > 0


def test_rank_0_has_the_same_model_and_statistics_with_and_without_broadcast_buffers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(JOBS), *sys.path]))
    first, second = run_ranks(JobAddress(text=""), "buffers_on_ranks:train", {}, num_ranks=2)
    assert first["True"] == first["False"]
    assert first["delayed"] == first["True"], "gradients that are held back are the same mean"
    assert second["True"]["1.running_mean"] != second["False"]["1.running_mean"], "the others keep their own"
    assert second["True"]["0.weight"] == second["False"]["0.weight"] == first["True"]["0.weight"]


def test_steps_of_a_kind_are_timed_after_one_that_is_not_so_that_each_broadcasts_what_it_should(alone, monkeypatch):
    wrapped, broadcasts = DistributedDataParallel(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))), []
    sent = wrapped._sync_buffers
    monkeypatch.setattr(wrapped, "_sync_buffers", lambda: (broadcasts.append(len(steps)), sent()))
    steps = []

    def step(sync):
        steps.append(sync)
        with contextlib.nullcontext() if sync else wrapped.no_sync():
            wrapped(torch.randn(4, 8)).sum().backward()

    for sync in (True, False, True):
        before = len(steps)
        turn(lambda sync=sync: step(sync), 3, torch.device("cpu"))
        timed = [place for place in broadcasts if place > before + 1]
        assert len(timed) == (3 if sync else 0)
