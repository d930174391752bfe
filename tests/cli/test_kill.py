"""A kill at any moment: finished records stay and are not measured again, and no process is left behind."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from legroom.job import Settings
from legroom.logbook import FILE_NAME, read_lines
from legroom.plan_file import read_plan

JOB = f"{Path(__file__).parents[1] / 'jobs' / 'plain.py'}:job"
NUM_KILLS, NUM_TRIALS = 20, 24


def words(folder):
    """A question of many short records, each of a child of its own: a kill may meet any part of one."""
    rates = ",".join(str(0.01 * (1 + number)) for number in range(NUM_TRIALS))
    question = ["sweep", JOB, "--device", "cpu", "--batch-sizes", "128", "--epochs", "1", "--rates", rates]
    return [*question, "--json", "--resume", "--out", str(folder)]


def kill_after(command, seconds, once=lambda parent: True):
    """Start the command, kill it that time after it came so far, and return the processes it had below it."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        wait_until(once, parent)
        time.sleep(seconds)
        below = children_of(parent)
        parent.send_signal(signal.SIGKILL)
    return below


def wait_until(once, parent):
    while parent.poll() is None and not once(parent):
        time.sleep(0.02)


def children_of(parent):
    try:
        return psutil.Process(parent.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def keeps_more(folder, num_before):
    """Whether a logbook that may be written to right now has more records than before."""
    path = folder / FILE_NAME
    return lambda parent: path.is_file() and path.read_bytes().count(b'{"entry"') > num_before


def finished(folder):
    _, entries, num_bad = read_lines(folder / FILE_NAME)
    assert num_bad == 0
    return [entry.request for entry in entries]


def learned(printed):
    """What is the same in every run of the sweep: what its trials learned, not how long they took."""
    points = json.loads(printed)["points"]
    return [(point["learning_rate"], point["num_steps"], point["loss"], point["score"]) for point in points]


def test_twenty_kills_lose_nothing_repeat_nothing_and_leave_no_orphan(tmp_path, legroom_here):
    straight = legroom_here(*words(tmp_path / "straight")).stdout
    rng = random.Random(0)
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "legroom", *words(killed)]
    before: list = []
    for number in range(NUM_KILLS):
        if number % 5 in (1, 3):  # amid the trials, which a kill soon after the start hardly meets
            below = kill_after(command, rng.uniform(0, 0.5), keeps_more(killed, len(before)))
        else:
            below = kill_after(command, rng.uniform(0.1, 1.5))
        _, alive = psutil.wait_procs(below, timeout=60)
        assert not alive, "a process outlived its parent"
        seen = finished(killed)
        assert seen[: len(before)] == before, "a finished record was lost"
        before = seen
    assert len(before) >= 8, "no kill met a run that had measured"
    done = legroom_here(*words(killed))
    assert done.code == 0, done.stderr
    requests = finished(killed)
    assert all(requests.count(request) == 1 for request in requests), "a finished record was measured again"
    assert len(requests) == 1 + NUM_TRIALS
    assert requests[: len(before)] == before
    assert learned(done.stdout) == learned(straight)


def test_a_kill_while_children_are_forked_leaves_no_orphan(tmp_path):
    rng = random.Random(1)
    command = [sys.executable, "-m", "legroom", "loading", JOB, "--device", "cpu", "--out", str(tmp_path)]

    def has_forked(parent):
        return len(children_of(parent)) >= 2

    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
            wait_until(has_forked, parent)
            time.sleep(rng.uniform(0, 0.7))
            wait_until(has_forked, parent)  # one child may have ended meanwhile, and the next not begun
            below = children_of(parent)
            parent.send_signal(signal.SIGKILL)
        assert len(below) >= 2, "the kill met no nursery with its child"
        _, alive = psutil.wait_procs(below, timeout=60)
        assert not alive, "a process outlived its parent"


def test_a_plan_that_was_killed_goes_on_to_its_end_and_repeats_nothing(tmp_path):
    words = ["plan", JOB, "--device", "cpu", "--budget", "20s", "--json", "--resume", "--out", str(tmp_path)]
    command, before = [sys.executable, "-m", "legroom", *words], []
    for num_more in (0, 12):  # soon after the first record, and amid the search for a rate
        _, alive = psutil.wait_procs(kill_after(command, 0.1, keeps_more(tmp_path, len(before) + num_more)), timeout=60)
        assert not alive, "a process outlived its parent"
        before = finished(tmp_path)
    done = subprocess.run(command, capture_output=True, check=True)
    requests, answer = finished(tmp_path), json.loads(done.stdout)
    assert requests[: len(before)] == before
    assert all(requests.count(request) == 1 for request in requests), "a finished record was measured again"
    plan = read_plan(tmp_path / "plan.toml")
    assert plan.settings == Settings(**answer["settings"])
    assert plan.cost_seconds == answer["cost_seconds"] > 0
    assert (tmp_path / "report.html").is_file()
