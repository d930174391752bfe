"""The child process: whatever the user's code does ends one child, is told apart, and leaves nothing behind."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
import torch

from legroom.engines.guard import LATEST, SOONEST, MemoryGuard
from legroom.engines.local import LocalEngine
from legroom.environments import FIXED_SEGMENTS
from legroom.errors import JobCrashed, JobError, JobHung, JobRaised, NothingMeasured, OutOfMemory
from legroom.host.process_memory import resident_bytes, tree_bytes, tree_of
from legroom.job import Settings
from legroom.job_address import address_of
from legroom.questions.loading.records import CompareLoaders
from legroom.questions.memory.records import PhasePeaks, StepPeaks
from legroom.questions.speed.records import TimeSteps
from legroom.requests import Describe
from legroom.testing import FakeMachine, check_engine
from legroom.training.records import Train

JOBS = Path(__file__).parents[1] / "jobs"
STEP = StepPeaks(device="cpu", batch_size=2)


@pytest.fixture(params=[False, True], ids=["forked", "anew"])
def alone(request):
    """Whether children are started anew: all that holds of one kind of child must hold of the other."""
    return request.param


def ask(name, request=STEP, *, alone, **options):
    worker = LocalEngine(**options).start(address_of(str(JOBS / f"{name}.py:job")), {}, alone=alone)
    try:
        return worker.ask(request)
    finally:
        worker.close()


class Anew(LocalEngine):
    """Forks nothing."""

    def start(self, address, environment, *, alone=False):
        return super().start(address, environment, alone=True)


@pytest.mark.parametrize("engine", [LocalEngine(), Anew(), FakeMachine()], ids=["forked", "anew", "fake"])
def test_engines_do_what_every_engine_must(engine):
    check_engine(engine, address_of("digits"))


def without_bytes(name):
    return lambda found: replace(found, phase_bytes={**found.phase_bytes, name: 0})


@pytest.mark.parametrize(
    ("kind", "spoil", "told"),
    [
        (Describe, lambda found: None, "Describe was answered with NoneType"),
        (Describe, lambda found: replace(found, num_trainable=0), "nothing to train"),
        (StepPeaks, lambda found: None, "StepPeaks was answered with NoneType"),
        (StepPeaks, lambda found: replace(found, outcome="out_of_memory"), "must fit"),
        (StepPeaks, lambda found: replace(found, phase_bytes={"forward": 1}), "a phase is missing"),
        (StepPeaks, without_bytes("update"), "a peak must be above zero"),
    ],
)
def test_an_engine_that_breaks_a_promise_is_found_out(kind, spoil, told):
    machine = FakeMachine()
    whole = machine.answer
    machine.answer = lambda request: spoil(whole(request)) if isinstance(request, kind) else whole(request)
    with pytest.raises(AssertionError, match=told):
        check_engine(machine, address_of("digits"))


WAYS_TO_FAIL = [
    ("bad/returns_linear", JobRaised, "returned a Linear; legroom needs a Job"),
    ("bad/factory_raises", JobRaised, "raised"),
    ("bad/import_raises", JobRaised, "raised"),
    ("bad/empty_data", JobRaised, "empty data set"),
    ("bad/loss_vector", JobRaised, "needs a scalar"),
    ("bad/loss_nan", JobRaised, "finite loss"),
    ("bad/no_trainable", JobRaised, "no trainable parameters"),
    ("bad/no_tensors", JobRaised, "without tensors"),
    ("bad/segfault", JobCrashed, "SIGSEGV"),
    ("bad/exits", JobCrashed, "exit status 3"),
]


@pytest.mark.parametrize(("name", "error", "words"), WAYS_TO_FAIL)
def test_each_way_to_fail_is_told_apart(name, error, words):
    with pytest.raises(error, match=words):
        ask(name, alone=False)


@pytest.mark.parametrize(("name", "error", "words"), WAYS_TO_FAIL[-2:])
def test_the_death_of_a_child_that_was_started_anew_is_told_apart(name, error, words):
    # What a job raises, both kinds of children tell by the same code; test_an_error_names_... has it of both.
    with pytest.raises(error, match=words):
        ask(name, alone=True)


@pytest.mark.parametrize(
    ("platform", "works"), [("win32", False), ("cygwin", False), ("linux", True), ("darwin", True)]
)
def test_a_system_without_our_pipes_is_refused_with_what_works_there(platform, works):
    if works:
        LocalEngine(platform=platform)
        return
    with pytest.raises(NothingMeasured, match=r"legroom report, jobs and vocabulary work there.* WSL 2"):
        LocalEngine(platform=platform)


def test_an_error_names_the_users_own_file_and_line(alone):
    with pytest.raises(JobRaised, match=r"factory_raises\.py, line \d+") as caught:
        ask("bad/factory_raises", alone=alone)
    assert "Traceback" in caught.value.details


def ask_impatiently(address, alone, clock=None):
    """Ask for a step, and wait long for what is built before it, but not for the step."""
    worker = LocalEngine().start(address_of(str(JOBS / address)), {}, alone=alone)
    worker.ask(Describe())
    worker.silence_seconds = 0.3
    worker.clock = clock(worker) if clock else worker.clock
    return worker.ask(STEP)


def test_a_hanging_job_is_ended_and_called_hung(alone):
    with pytest.raises(JobHung, match="raise --timeout"):
        ask_impatiently("bad/hangs.py:job", alone)


def test_a_job_that_prints_for_ever_is_still_measured_and_its_end_can_be_ended(alone):
    assert isinstance(ask("bad/chatty", alone=alone), PhasePeaks)


def test_a_job_that_only_prints_is_ended_and_its_last_words_are_kept(alone):
    def once_it_prints(worker):
        ticks = itertools.count()  # also where it has printed before anybody looks at the clock
        return lambda: float(next(ticks)) if worker._tail else 0.0

    with pytest.raises(JobHung) as caught:
        ask_impatiently("bad/chatty.py:forever", alone, once_it_prints)
    assert 0 < len(caught.value.details) < 200_000


def test_a_job_that_eats_memory_is_ended_before_the_machine_suffers(alone):
    with pytest.raises(OutOfMemory, match="was ended"):
        ask("bad/out_of_memory", limit_bytes=2**30, alone=alone)


def test_what_loader_processes_take_counts_against_the_limit(alone):
    request = StepPeaks(device="cpu", batch_size=16, num_steps=5, proof=True, num_workers=2)
    with pytest.raises(OutOfMemory, match="loader processes included"):
        ask("bad/hungry_loader", request, limit_bytes=3 * 2**29, alone=alone)


def test_pages_that_processes_share_are_counted_once():
    held = torch.ones(2**26)  # 256 MiB
    before = tree_bytes([os.getpid()])
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert tree_bytes([os.getpid(), *tree_of(pid)]) - before < 2**25
        assert resident_bytes(pid) > 2**28
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert float(held[0]) == 1.0


def test_closing_a_worker_ends_all_its_processes(alone):
    address = address_of(str(JOBS / "bad/leaks_children.py:job"))
    LocalEngine().start(address, {}, alone=alone).close()  # a nursery stays, as may multiprocessing's tracker
    before = set(psutil.Process().children(recursive=True))
    worker = LocalEngine().start(address, {}, alone=alone)
    worker.ask(STEP)
    started = [child for child in psutil.Process().children(recursive=True) if child not in before]
    assert len(started) >= 2
    worker.close()
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def test_a_killed_parent_leaves_no_child_behind(alone):
    code = (
        "import sys; from legroom.engines.local import LocalEngine; from legroom.job_address import address_of\n"
        "from legroom.questions.memory.records import StepPeaks\n"
        "worker = LocalEngine().start(address_of(sys.argv[1]), {}, alone=sys.argv[2] == 'True')\n"
        "worker.ask(StepPeaks(device='cpu', batch_size=2)); print('ready', flush=True)\n"
        "worker.ask(StepPeaks(device='cpu', batch_size=2, num_steps=10**9))"
    )
    words = [sys.executable, "-c", code, str(JOBS / "bad/leaks_children.py:job"), str(alone)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"ready\n"
        below = psutil.Process(parent.pid).children(recursive=True)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    assert len(below) >= (2 if alone else 3)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive


def test_a_worker_outlives_no_error_and_the_next_one_works():
    with pytest.raises(JobError):
        ask("bad/raises_at_batch", StepPeaks(device="cpu", batch_size=100), alone=False)
    assert ask("bad/raises_at_batch", alone=False).outcome == "measured"


def test_a_function_of_main_travels_to_the_child(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, legroom\n"
        "from torch.utils.data import TensorDataset\n"
        "WIDTH = 100_000\n"
        "def mine():\n"
        "    return legroom.Job(model=lambda: torch.nn.Linear(WIDTH, 1),\n"
        "        train_data=lambda: TensorDataset(torch.ones(9, WIDTH)),\n"
        "        loss=lambda model, batch: model(batch[0]).mean(),\n"
        "        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate))\n"
        "answer = legroom.speed(mine, device='cpu', batch_sizes=[3, 9], quick=True)\n"
        "print([point['batch_size'] for point in answer.points], answer.largest_batch_size)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[3, 9] 9\n"


def test_describe_tells_what_the_job_is():
    worker = LocalEngine().start(address_of("digits", {"hidden": "32"}), {})
    try:
        seen = worker.ask(Describe())
    finally:
        worker.close()
    assert (seen.model_name, seen.num_samples, seen.num_valid_samples) == ("RowLSTM", 1437, 360)
    assert seen.num_parameters == 4 * 32 * (8 + 32 + 2) + 32 * 10 + 10
    assert seen.sample_bytes == (8 * 8 * 4 + 8,) * 3


def test_a_run_is_saved_though_whoever_listens_can_hear_no_more(tmp_path):
    heard = []

    def listen(message, share):
        heard.append(message)
        raise KeyboardInterrupt if len(heard) == 1 else OSError(errno.EIO, "the terminal is gone")

    settings = asdict(Settings(num_epochs=100_000))
    request = Train(device="cpu", fresh=False, settings=settings, folder=str(tmp_path))
    worker = LocalEngine().start(address_of(f"{JOBS / 'plain.py'}:job", {"num_samples": "1000000"}), {})
    try:
        trained = worker.ask(request, listen)
    finally:
        worker.close()
    assert trained.stopped_because == "interrupted"
    assert trained.checkpoint_step == trained.num_steps > 0
    assert heard[1].startswith("saving")


def test_a_slow_but_working_job_is_not_called_hung():
    result = ask("plain", StepPeaks(device="cpu", batch_size=2, num_steps=500), silence_seconds=20.0, alone=False)
    assert result.num_repeats == 500


def variables_seen(tmp_path, environment, alone, *names):
    """What a job sees of those variables when it is built in a child."""
    (tmp_path / "telling.py").write_text(f"import os\nraise RuntimeError([os.environ.get(name) for name in {names}])\n")
    worker = LocalEngine().start(address_of(f"{tmp_path / 'telling.py'}:job"), environment, alone=alone)
    try:
        with pytest.raises(JobRaised) as caught:
            worker.ask(Describe(seed=0))
    finally:
        worker.close()
    return str(caught.value)


@pytest.mark.parametrize(
    "request_",
    [
        Train(device="cpu", settings={}),
        Train(device="cuda", settings={}),
        TimeSteps(device="cpu", batch_sizes=(1,)),
        TimeSteps(device="cuda", batch_sizes=(1,)),
        CompareLoaders(device="cpu", lanes=(), batch_size=1, what="load"),
        StepPeaks(device="cpu", batch_size=1, proof=True),
    ],
    ids=lambda request: f"{request.kind} {request.device}",
)
def test_what_trains_times_or_proves_has_the_users_own_environment(request_):
    assert request_.environment == {}


def test_a_child_sees_the_users_own_variables(tmp_path, monkeypatch, alone):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    told = variables_seen(tmp_path, {}, alone, "OMP_WAIT_POLICY", "PYTORCH_CUDA_ALLOC_CONF")
    assert "['active', 'max_split_size_mb:64']" in told


def test_torchs_default_allocator_is_not_the_users_own_setting(tmp_path, monkeypatch, alone):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    told = variables_seen(tmp_path, FIXED_SEGMENTS, alone, "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    assert "[None, None]" in told


def test_memory_is_looked_at_seldom_while_there_is_room_and_often_near_the_limit():
    own = resident_bytes(os.getpid())
    waits = []
    for room in (2**37, 2**31, 2**20):
        guard = MemoryGuard(os.getpid(), own + room)
        guard.excess()
        waits.append(guard.wait_seconds)
    assert waits[0] == LATEST > waits[1] > waits[2] == SOONEST
