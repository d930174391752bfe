"""Ranks that a child starts: what they return, whose error is told, and that none outlives the child."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousTimeoutError,
)

from legroom.child.rank import count_starts
from legroom.child.ranks import Meeting, Ranks, _launch, _refuse_stranger, run_ranks
from legroom.errors import JobCrashed, JobHung, JobRaised, UsageError
from legroom.job_address import JobAddress

JOBS = Path(__file__).parents[1] / "jobs"
NO_JOB = JobAddress(text="")


@pytest.fixture(autouse=True)
def reach_functions(monkeypatch):
    """Ranks import the functions of tests/jobs/on_ranks.py."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(JOBS), *sys.path]))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_each_rank_returns_its_own_and_shares_the_cores_with_the_others():
    said = []
    found = run_ranks(
        NO_JOB, "on_ranks:add", {"start": 3}, num_ranks=2, beat=lambda phase, share=None: said.append((phase, share))
    )
    assert [(each["rank"], each["total"]) for each in found] == [(0, 7.0), (1, 7.0)]
    assert {each["threads"] for each in found} == {str(max(1, len(os.sched_getaffinity(0)) // 2))}
    assert ("adding", 0.5) in said
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.parametrize(
    ("how", "limits", "error", "words"),
    [
        ("raises", {}, JobRaised, r"On rank 1 of 2: The job raised ValueError: no luck today .*on_ranks.py"),
        ("hangs", {"collective_seconds": 2.0}, JobHung, r"Rank 1 of 2 did not come .* at .*on_ranks.py, line \d+"),
    ],
)
def test_the_error_told_is_of_the_rank_that_failed_not_of_those_that_waited_for_it(how, limits, error, words):
    with pytest.raises(error, match=words):
        run_ranks(NO_JOB, "on_ranks:misbehave", {"rank": 1, "how": how}, num_ranks=2, **limits)


@pytest.mark.parametrize(
    ("device", "codes", "error", "words"),
    [
        ("cuda", {0: -6, 1: -15}, JobHung, "Rank 1 of 2 did not come to where the others waited. NCCL ended 0"),
        ("cuda", {0: -6, 1: -11}, JobCrashed, "Rank 1 of 2 died of SIGSEGV"),
        ("cuda", {0: -6}, JobCrashed, "Rank 0 of 2 died of SIGABRT"),
        ("cpu", {0: -6, 1: -15}, JobCrashed, "Rank 0 of 2 died of SIGABRT"),
    ],
)
def test_a_rank_that_nccl_aborted_for_waiting_too_long_is_not_the_one_to_blame(tmp_path, device, codes, error, words):
    found = Ranks(tmp_path, 2, device).failure(codes, 2)
    assert type(found) is error
    assert words in str(found)


def test_a_rank_that_was_stopped_is_named_before_torch_gives_it_up():
    # It would then have died of torch's SIGKILL.
    with pytest.raises(JobHung, match=r"Rank 1 of 2 did not come to where the others waited, at .*test_ranks.py, line"):
        run_ranks(NO_JOB, f"{__name__}:stop_rank_1", {}, num_ranks=2, collective_seconds=2.0)


def stop_rank_1(arguments, built, rank):
    """As a debugger does, or Ctrl-Z."""
    if rank.number == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    torch.distributed.barrier()


def test_an_error_says_how_often_all_had_been_started_anew_before(tmp_path):
    for _ in range(3):
        count_starts(tmp_path, 1)
    told = str(Ranks(tmp_path, 2).failure({1: -9}, 2))
    assert told == "Rank 1 of 2 died of SIGKILL. All processes had been started anew 2 times before"


def test_ranks_that_have_not_ended_in_time_are_ended_and_named(tmp_path):
    with pytest.raises(JobHung, match=r"Rank 0 of 1 had not ended after 6.0 s"):
        run_ranks(NO_JOB, "on_ranks:linger", {"folder": str(tmp_path)}, num_ranks=1, seconds=6.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_rank_on_a_gpu_speaks_nccl_and_makes_the_updates_of_one_process_sharded_or_not(monkeypatch):
    monkeypatch.syspath_prepend(JOBS)
    import on_ranks

    (found,) = run_ranks(NO_JOB, "on_ranks:add", {"start": 3}, num_ranks=1, device="cuda")
    assert (found["backend"], found["total"]) == ("nccl", 3.0)
    case = {"job": "plain", "settings": {"batch_size": 32, "learning_rate": 0.1}, "num_steps": 10}
    cases = [case, {**case, "shard": True}]
    (found,) = run_ranks(NO_JOB, "on_ranks:train_cases", {"cases": cases}, num_ranks=1, device="cuda")
    alone = on_ranks.train_case(case)
    for trained in found:
        assert trained["losses"] == pytest.approx(alone["losses"], rel=1e-3)


def test_a_meeting_to_which_nobody_comes_ends_in_its_time():
    meeting = Meeting(num_nodes=2, endpoint="localhost:0", name="alone", join_seconds=1.0)
    with pytest.raises(UsageError, match=r"Not all of 2 machines came to localhost:0 within 1.0 s"):
        run_ranks(NO_JOB, "on_ranks:add", {"start": 0}, num_ranks=1, meeting=meeting)


@pytest.mark.parametrize("error", [RendezvousClosedError, RendezvousConnectionError, RendezvousTimeoutError])
def test_ranks_that_cannot_meet_again_are_told_that_another_machine_ended(tmp_path, monkeypatch, error):
    ranks = Ranks(tmp_path, 1)
    count_starts(tmp_path, 0)
    monkeypatch.setattr("torch.distributed.launcher.api.launch_agent", plant(error))
    with pytest.raises(JobCrashed, match=r"Another machine of this run has ended, and the ranks of 2 .*--resume"):
        _launch(ranks, Meeting(num_nodes=2, endpoint="localhost:0", name="again"), 1)


def test_machines_that_ask_for_another_run_may_be_why_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.distributed.launcher.api.launch_agent", plant(RendezvousConnectionError))
    with pytest.raises(UsageError, match=r"Nobody answers .* Or the other machines ask for another run: "):
        _launch(Ranks(tmp_path, 1), Meeting(num_nodes=2, endpoint="localhost:0", name="other"), 0)


def plant(error):
    """Raises it, whatever it is called with."""

    def fail(*args, **words):
        raise error("planted")

    return fail


def test_a_port_at_which_another_program_listens_is_refused_within_the_time_to_join_and_not_in_silence():
    said = []
    with socket.create_server(("localhost", 0)) as stranger:
        meeting = Meeting(num_nodes=2, endpoint=f"localhost:{stranger.getsockname()[1]}", join_seconds=1.0)
        with pytest.raises(UsageError, match=r"Port \d+ of localhost is in use by another program"):
            _refuse_stranger(meeting, said.append)
    assert len(said) > 1


def test_a_meeting_that_another_machine_has_opened_is_joined_though_there_is_little_time():
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    store = TCPStore("localhost", port, is_master=True, wait_for_workers=False)
    _refuse_stranger(Meeting(num_nodes=2, endpoint=f"localhost:{port}", join_seconds=1.0), print)
    del store


def test_ranks_die_with_the_process_that_started_them_even_by_sigkill(tmp_path):
    code = (
        "import sys\nfrom legroom.child.ranks import run_ranks\nfrom legroom.job_address import JobAddress\n"
        "run_ranks(JobAddress(text=''), 'on_ranks:linger', {'folder': sys.argv[1]}, num_ranks=2)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    pids = [tmp_path / f"{rank}.pid" for rank in (0, 1)]
    while not all(path.is_file() and path.read_text() for path in pids):
        assert starter.poll() is None
    ranks = [psutil.Process(int(path.read_text())) for path in pids]
    starter.kill()
    starter.wait()
    assert psutil.wait_procs(ranks, timeout=20)[1] == []
