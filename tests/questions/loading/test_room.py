"""Loaders on a host with little /dev/shm: compared one after the other, refused, and told when a batch is lost."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from legroom.child.built_job import BuiltJob
from legroom.errors import JobHung
from legroom.job_address import address_of
from legroom.questions.loading.child import failures
from legroom.questions.loading.child.comparison import compare_loaders
from legroom.questions.loading.child.failures import LoaderFailed, LostBatchWatch, Patience
from legroom.questions.loading.child.timed_loader import TimedLoader
from legroom.questions.loading.child.watched_data import Board
from legroom.questions.loading.records import CompareLoaders, LoaderSettings
from legroom.testing import plant_host

SLOW_STORE = f"{Path(__file__).parents[2] / 'jobs' / 'slow_store.py'}:job"
BATCH_BYTES = 32 * 4 * 4
ONE, TWO = LoaderSettings(num_workers=1), LoaderSettings(num_workers=2)
MIB = 2**20


@pytest.fixture
def compare(monkeypatch):
    """Compares loaders of batches of 512 bytes on a host with so much free, and counts the workers of each turn."""

    def run(*settings, built=None, keep=False, **free):
        counts, window = [], TimedLoader.window

        def counting(self, *words):
            counts.append(len(torch.multiprocessing.active_children()))
            window(self, *words)

        monkeypatch.setattr(TimedLoader, "window", counting)
        words = {"device": "cpu", "batch_size": 32, "what": "load", "num_rounds": 1, "num_batches": 2}
        request = CompareLoaders(**words, lanes=settings, keep=keep)
        limits = plant_host(**free).limits
        found = compare_loaders(request, built or BuiltJob(address_of(SLOW_STORE)), read_limits=lambda: limits)
        monkeypatch.setattr(TimedLoader, "window", window)
        return found.lanes, counts

    return run


def test_loaders_run_side_by_side_where_they_fit_and_one_after_the_other_where_they_do_not(compare):
    assert compare(ONE, TWO, shm_bytes=20 * BATCH_BYTES)[1] == [3, 3]
    found, counts = compare(ONE, TWO, keep=True, shm_bytes=8 * BATCH_BYTES)
    assert counts == [1, 2]
    assert [one.outcome for one in found] == ["measured", "measured"]
    assert not torch.multiprocessing.active_children()


def test_kept_loaders_make_room_where_there_is_none_beside_them(compare):
    built = BuiltJob(address_of(SLOW_STORE))
    assert compare(ONE, built=built, keep=True, shm_bytes=20 * BATCH_BYTES)[1] == [1]
    assert compare(ONE, TWO, built=built, shm_bytes=8 * BATCH_BYTES)[1] == [1, 2]


def test_a_loader_that_does_not_fit_alone_is_not_started(compare):
    (one, two), counts = compare(ONE, TWO, shm_bytes=5 * BATCH_BYTES)
    assert (one.outcome, two.outcome, counts) == ("measured", "out_of_memory", [1])
    assert two.reason == "2 workers hold up to 3.0 KiB of batches at a time; /dev/shm has 2.5 KiB free"


def test_workers_that_host_memory_does_not_hold_are_not_started(compare):
    (two,), counts = compare(TWO, available_bytes=40 * MIB)
    assert (two.outcome, counts) == ("out_of_memory", [])
    assert two.reason.endswith("batches included; 40.0 MiB of host memory are free")


class Workers:
    """Two planted workers, looked at once a second while a batch is awaited."""

    def __init__(self, monkeypatch, *, free_bytes, can_see_reads=True):
        self.now = self.cpu_seconds = 0.0
        self.board = Board()
        monkeypatch.setattr(failures, "workers_cpu", lambda workers: self.cpu_seconds)
        self.watch = LostBatchWatch(
            self.board,
            lambda: [SimpleNamespace(), SimpleNamespace()],
            waiting_bytes=5 * MIB,
            can_see_reads=can_see_reads,
            clock=lambda: self.now,
            free_bytes=lambda: free_bytes,
        )

    def wait(self, seconds, cpu_share=0.0):
        for _ in range(seconds):
            self.now += 1
            self.cpu_seconds += cpu_share
            self.watch.look()


def test_a_batch_lost_to_a_full_shm_is_told_in_about_ten_seconds(monkeypatch):
    workers = Workers(monkeypatch, free_bytes=MIB)
    workers.wait(10, cpu_share=0.001)
    with pytest.raises(LoaderFailed, match=r"none of 2 workers did anything for 10 s; .* /dev/shm has 1\.0 MiB free"):
        workers.wait(2)


def test_a_batch_lost_with_room_in_shm_is_told_as_one_that_cannot_be_sent(monkeypatch):
    workers = Workers(monkeypatch, free_bytes=2**30)
    workers.wait(60)
    with pytest.raises(JobHung, match="cannot be sent between processes"):
        workers.wait(2)
    # A loader of the job's own reads where nobody looks.
    Workers(monkeypatch, free_bytes=2**30, can_see_reads=False).wait(100)


def test_slow_storage_slow_collation_and_rest_lose_no_batch(monkeypatch):
    workers = Workers(monkeypatch, free_bytes=MIB)
    workers.wait(60, cpu_share=0.5)
    workers.board.places[1] = 7
    workers.wait(60)
    workers.board.places[1] = -1
    workers.board.rest()
    workers.wait(60)
    workers.board.go_on()
    with pytest.raises(LoaderFailed):  # it looked all the time
        workers.wait(12)


def test_patience_looks_again_and_again_and_ends_all_the_same(monkeypatch):
    looks = []
    monkeypatch.setattr(failures, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(failures, "monotonic", lambda: 100.0 * len(looks))  # a look every 100 s
    with pytest.raises(JobHung, match="did not come"), Patience(350)(lambda: "here", lambda: looks.append(1)):
        time.sleep(600)
    assert len(looks) == 4


LOSES = """
import json, sys, time
import torch, legroom
from legroom.questions.loading.child import open_loader
from legroom.child.built_job import BuiltJob
from legroom.questions.loading.child.comparison import compare_loaders
from legroom.questions.loading.records import CompareLoaders, LoaderSettings

class Large(torch.utils.data.Dataset):
    def __len__(self): return 1024
    def __getitem__(self, index): return torch.ones(2**16)

def slow(model, batch):
    time.sleep(0.03)
    return model(batch[:, :4]).mean()

job = legroom.Job(model=lambda: torch.nn.Linear(4, 1), train_data=Large, collate=lambda rows: torch.stack(rows),
    loss=slow, optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate))
built = BuiltJob(None)
built.job = job
if sys.argv[1] == "blind":
    open_loader.what_lacks = lambda *words: ""
settings = (LoaderSettings(num_workers=6), LoaderSettings(num_workers=1))
words = dict(device="cpu", batch_size=8, what="together", num_rounds=1, num_batches=30)
found = compare_loaders(CompareLoaders(lanes=settings, **words), built).lanes
print(json.dumps([[one.outcome, one.reason] for one in found]))
"""


def in_small_shm(*words):
    """Runs the script where /dev/shm holds 12 MiB: 6 workers of batches of 2 MiB hold up to 28."""
    enter = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=12M tmpfs /dev/shm && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*enter, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount a small /dev/shm of its own")
    done = subprocess.run([*enter, sys.executable, "-c", LOSES, *words], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_small_shm_is_told_before_a_worker_starts():
    (outcome, reason), one = in_small_shm("seeing")
    assert outcome == "out_of_memory"
    assert reason == "6 workers hold up to 28.0 MiB of batches at a time; /dev/shm has 12.0 MiB free"
    assert one == ["measured", ""]


def test_a_batch_lost_in_a_small_shm_ends_its_loader_alone():
    (outcome, reason), one = in_small_shm("blind")
    assert outcome == "out_of_memory"
    assert "A batch was lost on its way" in reason
    assert one == ["measured", ""]
