"""Children forked from a process that has imported torch are as if started anew, and end as these do."""

import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest

from legroom.child import nursery as tending
from legroom.engines.local import LocalEngine
from legroom.engines.nursery import nursery_for
from legroom.environments import STEADY_MALLOC, apply_environment
from legroom.errors import JobCrashed, JobRaised
from legroom.job_address import address_of
from legroom.questions.memory.records import StepPeaks
from legroom.requests import Describe

JOBS = Path(__file__).parents[1] / "jobs"
TELLING = """
import ctypes, faulthandler, gc, json, locale, multiprocessing, os, random, re, resource, signal, sys, warnings
from pathlib import Path

import numpy
import torch

status = Path("/proc/self/status").read_text()
death_signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death_signal))
same = {
    "variables": dict(os.environ),
    "folder": os.getcwd(),
    "path": sys.path[1:],  # the first is the job's own
    "umask": re.findall("Umask:.*", status),
    "signals": re.findall("Sig(?:Blk|Ign|Cgt):.*", status),
    "limits": [resource.getrlimit(number) for number in range(16)],
    "cores": sorted(os.sched_getaffinity(0)),
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "opened": sorted(re.sub("[0-9]+", "", os.readlink(f"/proc/self/fd/{fd}")) for fd in (0, 1, 2)),
    "num_opened": len(os.listdir("/proc/self/fd")),
    "first_in_group": os.getpgid(0) == os.getpid(),
    "session": os.getsid(0),
    "dies_with_parent": death_signal.value,
    "ended_first": Path("/proc/self/oom_score_adj").read_text(),
    "main": [sys.modules["__main__"].__spec__.name, sys.argv[0], len(sys.argv)],
    "flags": [str(sys.flags), str(sys._xoptions), str(warnings.filters[-5:])],
    "streams": [[s.encoding, s.errors, s.line_buffering, s.seekable(), s.isatty()] for s in (sys.stdout, sys.stderr)],
    "faults": faulthandler.is_enabled(),
    "locale": locale.getlocale(),
    "start_method": multiprocessing.get_start_method(),
    "collector": [gc.isenabled(), gc.get_threshold()],
    "torch_threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
    "torch_defaults": [str(torch.get_default_dtype()), torch.is_grad_enabled(), torch.get_float32_matmul_precision()],
}
own = {
    "pid": os.getpid(),
    "parent": os.getppid(),
    "parent_word": int(sys.argv[3]),
    "dice": [random.random(), numpy.random.random(), torch.initial_seed(), torch.rand(1).item()],
}
Path(__file__).with_name("told.json").write_text(json.dumps([same, own]))
raise RuntimeError("told")
"""


def tell(folder, environment=None, *, alone=False):
    """What a child sees of itself: what is the same in all children, and what is its own."""
    (folder / "telling.py").write_text(TELLING)
    child = LocalEngine().start(address_of(f"{folder / 'telling.py'}:job"), environment or {}, alone=alone)
    try:
        with pytest.raises(JobRaised, match="told"):
            child.ask(Describe())
    finally:
        child.close()
    return json.loads((folder / "told.json").read_text())


def nursery_here(environment=None):
    return nursery_for(apply_environment(environment or {}, os.environ))


def test_a_child_is_forked_from_the_nursery_unless_it_is_to_be_alone(tmp_path):
    forked, alone = tell(tmp_path)[1], tell(tmp_path, alone=True)[1]
    assert forked["parent"] == forked["parent_word"] == nursery_here().pid
    assert alone["parent"] == alone["parent_word"] == psutil.Process(nursery_here().pid).ppid() == os.getpid()


def test_a_forked_child_has_what_one_started_anew_has(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    tell(tmp_path)  # a nursery is there, of another folder and umask
    monkeypatch.setenv("LEGROOM_TEST_WORD", "\udcff two words\n")
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.chdir(folder)
    umask = os.umask(0o027)
    try:
        forked, anew = tell(tmp_path)[0], tell(tmp_path, alone=True)[0]
    finally:
        os.umask(umask)
    assert forked == anew
    assert forked["folder"] == str(folder)
    assert forked["umask"] == ["Umask:\t0027"]
    assert forked["variables"]["LEGROOM_TEST_WORD"] == "\udcff two words\n"


def test_a_forked_child_takes_as_much_memory_as_one_started_anew():
    peaks = []
    for alone in (False, True):
        child = LocalEngine().start(address_of(str(JOBS / "plain.py")), {}, alone=alone)
        peaks.append(child.ask(StepPeaks(device="cpu", batch_size=2)).training_bytes())
        child.close()
    assert peaks[0] == pytest.approx(peaks[1], rel=0.03)


def test_children_of_one_nursery_throw_their_own_dice(tmp_path):
    (_, one), (_, other) = tell(tmp_path), tell(tmp_path)
    assert one["parent"] == other["parent"]
    assert not set(one["dice"]) & set(other["dice"])


def test_another_setting_of_malloc_has_another_nursery(tmp_path):
    parents = [tell(tmp_path, environment)[1]["parent"] for environment in ({}, STEADY_MALLOC, {}, STEADY_MALLOC)]
    assert parents[0] == parents[2] != parents[1] == parents[3]


def test_an_edited_job_is_imported_anew_by_each_child(tmp_path):
    address = address_of(str(write_job(tmp_path, width=3)))
    sizes = []
    for width in (3, 77):
        write_job(tmp_path, width=width)
        child = LocalEngine().start(address, {})
        sizes.append(child.ask(Describe()).num_parameters)
        child.close()
    assert sizes == [68 * 4, 68 * 78]


def write_job(folder, width):
    path = folder / "edited.py"
    path.write_text(re.sub(r"nn\.Linear\(\d+, ", f"nn.Linear({width}, ", (JOBS / "plain.py").read_text()))
    return path


def test_a_killed_nursery_takes_its_children_along_and_is_replaced(tmp_path):
    child = LocalEngine().start(address_of(str(JOBS / "plain.py")), {})
    child.ask(Describe())
    first = nursery_here()
    os.kill(first.pid, signal.SIGKILL)
    with pytest.raises(JobCrashed, match="SIGKILL"):
        child.ask(StepPeaks(device="cpu", batch_size=2, num_steps=10**9))
    child.close()
    assert tell(tmp_path)[1]["parent"] == nursery_here().pid != first.pid


THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()"
NO_TORCH = "import sys\nif 'nursery' in sys.orig_argv: sys.modules['torch'] = None"


@pytest.mark.parametrize("code", [THREAD, NO_TORCH], ids=["thread", "no torch"])
def test_where_no_nursery_can_fork_children_are_started_anew(tmp_path, code):
    (tmp_path / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for _ in range(2):
        assert tell(tmp_path, {"PYTHONPATH": path})[1]["parent"] == os.getpid()
    assert nursery_here({"PYTHONPATH": path}) is None


@pytest.mark.parametrize(("num_threads", "opened"), [(1, "/dev/null"), (2, "/dev/null"), (1, "/dev/nvidiactl")])
def test_a_process_with_threads_or_a_driver_is_not_fit_to_fork(tmp_path, num_threads, opened):
    for number in range(num_threads):
        (tmp_path / "task" / str(number)).mkdir(parents=True)
    (tmp_path / "fd").mkdir()
    (tmp_path / "fd" / "3").symlink_to(opened)
    unfit = tending.is_unfit(tmp_path / "task", tmp_path / "fd")
    assert unfit == (num_threads > 1 or opened != "/dev/null")


def test_a_thread_starts_no_nursery_since_it_would_end_with_it(tmp_path):
    environment, seen = {"MALLOC_ARENA_TEST": "7"}, []
    thread = threading.Thread(target=lambda: seen.append(tell(tmp_path, environment)[1]["parent"]))
    thread.start()
    thread.join()
    assert seen == [os.getpid()]
    assert tell(tmp_path, environment)[1]["parent"] == nursery_here(environment).pid


def test_ended_children_leave_neither_descriptors_nor_processes(tmp_path):
    tell(tmp_path)
    before = held_when_childless()
    for name in ("bad/segfault", "bad/exits", "plain"):
        child = LocalEngine().start(address_of(str(JOBS / f"{name}.py")), {})
        child.close()
    assert held_when_childless() == before


def held_when_childless():
    """Descriptors of this process and of the nursery, once that has reaped its children."""
    nursery = psutil.Process(nursery_here().pid)
    deadline = time.monotonic() + 10
    while nursery.children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not nursery.children()
    return len(os.listdir("/proc/self/fd")), nursery.num_fds()


def test_a_nursery_that_nobody_asks_for_long_ends(monkeypatch):
    monkeypatch.setattr(tending, "IDLE_SECONDS", 0.05)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        tending.Tender(theirs).work()
        os._exit(1)
    with ours, theirs:
        assert os.waitpid(pid, 0)[1] == 0
