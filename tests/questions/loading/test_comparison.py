"""Loaders compared for real: throughputs, failures told with index and worker, and files made cold."""

import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from legroom.child.built_job import BuiltJob
from legroom.errors import JobCrashed, JobHung, JobRaised
from legroom.job_address import address_of
from legroom.questions.loading.child.cold_files import (
    cached_share,
    data_files,
    drop_from_cache,
    held_files,
    recording_opened,
)
from legroom.questions.loading.child.comparison import compare_loaders
from legroom.questions.loading.child.open_loader import OpenLoader
from legroom.questions.loading.child.timed_loader import TimedLoader
from legroom.questions.loading.child.watched_data import Left
from legroom.questions.loading.records import CompareLoaders, LoaderSettings

JOBS = Path(__file__).parents[2] / "jobs"
SLOW_STORE = f"{JOBS / 'slow_store.py'}:job"
ONE, INLINE = LoaderSettings(num_workers=1), LoaderSettings(num_workers=0)


def compare(job, *settings, what="load", num_rounds=2, window_seconds=0.05, options=None, **more):
    request = CompareLoaders(
        device="cpu",
        batch_size=32,
        what=what,
        lanes=settings,
        num_rounds=num_rounds,
        window_seconds=window_seconds,
        **more,
    )
    return compare_loaders(request, BuiltJob(address_of(job, options))).lanes


def faulty(fault, *settings, **more):
    # A whole epoch of 64 batches, so that the faulty sample is met.
    more = {"num_batches": 80, "num_rounds": 1, **more}
    return compare(f"{JOBS / 'bad' / 'data.py'}:job", *settings, options={"fault": fault}, **more)


def test_a_loss_that_is_no_number_is_seen_where_batches_are_trained_on():
    job = f"{JOBS / 'bad' / 'loss_nan.py'}:job"
    found = {what: compare(job, INLINE, what=what)[0].has_finite_loss for what in ("load", "together")}
    assert found == {"load": True, "together": False}


def test_every_loader_gets_its_rounds_and_its_workers():
    inline, one = compare("digits", INLINE, ONE, what="together")
    assert len(inline.batch_seconds) == len(one.batch_seconds) == 2
    assert (inline.num_processes, one.num_processes) == (0, 1)
    assert one.worker_private_bytes > 0
    assert inline.samples_per_batch == one.samples_per_batch == 32


def test_the_step_alone_is_measured_on_real_batches():
    (step,) = compare("digits", INLINE, what="step")
    assert step.samples_per_second > 0
    assert step.batch_bytes >= 32 * 64 * 4


class Counted(torch.utils.data.Dataset):
    """Counts the samples that each worker began."""

    def __init__(self, num_began):
        self.num_began = num_began

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        worker = torch.utils.data.get_worker_info()
        self.num_began[worker.id if worker else -1] += 1
        time.sleep(1e-3)
        return torch.ones(4)


class CountedBatches(Counted):
    """The same, whole batches at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


@pytest.mark.parametrize(("kind", "most"), [(Counted, 1), (CountedBatches, 32)])
def test_workers_rest_while_another_loader_has_its_turn(kind, most):
    built, others = BuiltJob(address_of(SLOW_STORE)), BuiltJob(address_of(SLOW_STORE))
    num_began, two = torch.zeros(3, dtype=torch.long).share_memory_(), LoaderSettings(num_workers=2)
    built.job = replace(built.job, train_data=lambda: kind(num_began))
    request = CompareLoaders(device="cpu", batch_size=32, what="load", lanes=(two, ONE))
    with closing(OpenLoader(two, built, request)) as loader:
        loader.start()
        TimedLoader(loader, lambda batch: None).window(0.0, 4)
        before = num_began.clone()
        with closing(OpenLoader(ONE, others, request)) as other:
            other.start()
            TimedLoader(other, lambda batch: None).window(0.0, 8)
        # Each may have been told to rest at the sample, or the whole batch, that it began; those are used up untimed.
        assert (num_began - before).max() <= most
        assert loader.num_ahead() == (2 if kind is CountedBatches else 0)


def test_workers_of_a_kept_loader_run_in_the_next_comparison_and_the_others_end():
    built, two = BuiltJob(address_of(SLOW_STORE)), LoaderSettings(num_workers=2)
    words = {"device": "cpu", "batch_size": 32, "num_rounds": 1, "window_seconds": 0.05, "num_batches": 2}

    def run(what, *settings, keep):
        compare_loaders(CompareLoaders(what=what, lanes=settings, keep=keep, **words), built)
        return {child.pid for child in torch.multiprocessing.active_children()}

    before = {child.pid for child in torch.multiprocessing.active_children()}
    first = run("load", ONE, two, keep=True) - before
    second = run("together", two, keep=True) - before
    assert (len(first), len(second)) == (3, 2)
    assert second < first
    assert not run("together", two, keep=False) - before


def test_workers_leave_without_finishing_their_batch():
    request = CompareLoaders(device="cpu", batch_size=32, what="load", lanes=(ONE,))
    loader = OpenLoader(ONE, BuiltJob(address_of(SLOW_STORE)), request)
    loader.start()
    loader.rest()
    loader.board.leave()
    with pytest.raises(Left):
        loader.board.wait()
    loader.close()
    assert not any(process.is_alive() for process in loader.processes)


def test_short_epochs_are_counted_whole():
    (one,) = compare("digits", INLINE, num_rounds=3, window_seconds=0.5)
    request = CompareLoaders(device="cpu", batch_size=32, what="load", lanes=(INLINE,))
    loader = OpenLoader(INLINE, BuiltJob(address_of("digits")), request)
    assert loader.epoch_batches > 1
    assert one.num_batches % loader.epoch_batches == 0


def test_a_failing_sample_is_named_with_its_worker():
    with pytest.raises(JobRaised, match=r"ValueError: the label is missing at index 1001, in worker 0 of 1"):
        faulty("raises", ONE)
    with pytest.raises(JobRaised, match="at index 1001, in the training process"):
        faulty("raises", INLINE)


# It may die while it hands a batch over: then Python's own socket between the two is left open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_worker_that_dies_is_named_with_its_sample():
    with pytest.raises(JobCrashed, match="Loader worker 0 of 1 died of SIGSEGV while reading index 1001"):
        faulty("dies", ONE)


@pytest.mark.parametrize(("settings", "where"), [(ONE, "worker 0 of 1"), (INLINE, "the training process")])
def test_a_sample_that_hangs_is_given_up_and_named(settings, where):
    with pytest.raises(JobHung, match=f"reading index 1001 in {where}"):
        faulty("hangs", settings, patience_seconds=1.5)


def test_an_unpicklable_data_set_ends_only_the_loaders_with_workers():
    before = torch.multiprocessing.get_start_method()
    try:
        inline, one = faulty("unpicklable", INLINE, ONE, num_batches=4)
    finally:
        torch.multiprocessing.set_start_method(before, force=True)
    assert inline.outcome == "measured"
    assert one.outcome == "unpicklable"
    assert "pickle" in one.reason


def test_workers_that_repeat_an_iterable_data_set_are_noticed(tmp_path, monkeypatch):
    (tmp_path / "repeating_stream.py").write_text(
        "import torch, legroom\n"
        "from torch.utils.data import IterableDataset\n"
        "class Stream(IterableDataset):\n"
        "    def __iter__(self):\n"
        "        return (torch.full((4,), float(i)) for i in range(512))\n"
        "def job():\n"
        "    return legroom.Job(model=lambda: torch.nn.Linear(4, 1), train_data=Stream, num_samples=512,\n"
        "        loss=lambda model, batch: model(batch).mean(),\n"
        "        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (two,) = compare(f"{tmp_path / 'repeating_stream.py'}:job", LoaderSettings(num_workers=2))
    assert two.repeats_samples


def test_files_read_are_found_and_made_cold(tmp_path):
    path = tmp_path / "sample.bin"
    path.write_bytes(bytes(2**20))
    with path.open("rb+") as file:
        os.fdatasync(file.fileno())  # a page not yet written cannot be dropped
    with recording_opened() as opened:
        path.read_bytes()
    files = data_files(opened)
    assert files == [str(path)]
    assert cached_share(files) == 1.0
    drop_from_cache(files)
    if cached_share(files) == 1.0:
        pytest.skip("this file system keeps its files in memory")
    assert cached_share(files) < 0.1


def test_a_mapped_array_is_found_among_held_files(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((64, 1024)))
    rows = np.load(path, mmap_mode="r")
    assert rows.sum() == 0
    assert str(path) in data_files(held_files())


def test_programs_and_libraries_are_no_data(tmp_path):
    assert data_files([torch.__file__, str(tmp_path), "/proc/self/maps", np.__file__]) == []
