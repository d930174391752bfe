"""Which processes a budget of host memory is about."""

import os
import subprocess
import time

from legroom.host import process_memory
from legroom.host.process_memory import tree_of


def test_the_tree_of_a_process_is_what_it_and_those_below_it_started(monkeypatch):
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 60 & wait' & wait"]) as shell:
        try:
            for _ in range(500):
                found = tree_of(shell.pid)
                if len(found) == 3:
                    break
                time.sleep(0.01)
            assert len(found) == 3
            monkeypatch.setattr(process_memory, "LISTS_CHILDREN", False)
            assert sorted(tree_of(shell.pid)) == sorted(found)
            assert found[0] == shell.pid
            assert set(found) < set(tree_of(os.getpid()))
        finally:
            subprocess.run(["kill", *map(str, found)], check=True)


def test_a_process_that_has_ended_has_no_tree():
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert tree_of(ended.pid) == []
