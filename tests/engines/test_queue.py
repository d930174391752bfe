"""The queue: at most so many at once, only what may run beside the others, and none beyond its time."""

import threading
import time

import pytest

from legroom.engines.queue import Limits, ask_all
from legroom.errors import JobCrashed, JobHung
from legroom.job_address import JobAddress
from legroom.requests import Describe
from legroom.testing import FakeClock

ADDRESS = JobAddress(text="digits")


class Children:
    """An engine whose children do as a function says."""

    def __init__(self, answer):
        self.answer = answer
        self.running, self.most, self.num_closed = 0, 0, 0
        self.lock = threading.Lock()

    def start(self, address, environment, *, alone=False):
        assert threading.current_thread() is threading.main_thread()
        return self

    def ask(self, request, listen):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            time.sleep(0.01)
            return self.answer(request, listen)
        finally:
            with self.lock:
                self.running -= 1

    def close(self):
        with self.lock:
            self.num_closed += 1


def requests(number):
    return [Describe(seed=seed) for seed in range(number)]


def outcomes(engine, number, **limits):
    return list(ask_all(engine, ADDRESS, requests(number), limits=Limits(**limits)))


@pytest.mark.parametrize("together", [1, 3])
def test_all_are_answered_and_no_more_than_so_many_at_once(together):
    engine = Children(lambda request, listen: request.seed)
    found = outcomes(engine, 9, together=together)
    assert sorted(each.result for each in found) == list(range(9))
    assert all(each.request.seed == each.result for each in found)
    assert engine.most <= together
    assert engine.num_closed == 9


def test_one_that_fails_ends_no_other():
    def answer(request, listen):
        if request.seed == 1:
            raise JobCrashed("died")
        return request.seed

    found = outcomes(Children(answer), 4, together=2)
    assert {each.request.seed: str(each.error) for each in found if each.error} == {1: "died"}
    assert sorted(each.result for each in found if each.error is None) == [0, 2, 3]


def test_what_may_not_run_beside_others_waits_for_them():
    engine = Children(lambda request, listen: request.seed)
    found = outcomes(engine, 4, together=4, may_join=lambda request, running: False)
    assert len(found) == 4
    assert engine.most == 1


def test_one_that_goes_on_beyond_its_time_is_ended_at_its_next_sign_of_life():
    clock = FakeClock()

    def answer(request, listen):
        listen("training", 0.1)
        clock.advance(100.0)
        listen("training", 0.2)
        return "late"

    engine = Children(answer)
    [found] = ask_all(engine, ADDRESS, requests(1), limits=Limits(seconds=60.0), clock=clock)
    assert isinstance(found.error, JobHung)
    assert engine.num_closed == 1


def test_signs_of_life_reach_whoever_asked_in_the_thread_that_asked():
    told = []

    def tell(request, message, share):
        assert threading.current_thread() is threading.main_thread()
        told.append((request.seed, message, share))

    def answer(request, listen):
        listen("at it", 0.5)
        return 1

    list(ask_all(Children(answer), ADDRESS, requests(2), limits=Limits(together=2), tell=tell))
    assert sorted(told) == [(0, "at it", 0.5), (1, "at it", 0.5)]


def test_a_fault_of_ours_is_raised():
    def answer(request, listen):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        outcomes(Children(answer), 1)


def test_requests_are_shared_out_over_the_places_and_join_only_what_runs_at_theirs():
    seen, asked = [], []

    class Placed(Children):
        def start(self, address, environment, *, alone=False):
            seen.append(environment["CARD"])
            return super().start(address, environment, alone=alone)

    def may_join(request, running):
        asked.append(len(running))
        return len(running) < 2

    engine = Placed(lambda request, listen: request.seed)
    found = outcomes(engine, 6, together=6, may_join=may_join, places=({"CARD": "a"}, {"CARD": "b"}))
    assert sorted(each.result for each in found) == list(range(6))
    assert seen[:4] == ["a", "b", "a", "b"]
    assert engine.most <= 4
    assert max(asked) == 2
