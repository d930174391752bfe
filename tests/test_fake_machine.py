"""A planted machine answers every question, by the fakes it is given and, where none is, by those of the questions."""

import pytest

from legroom.job_address import JobAddress
from legroom.requests import Request, record_kinds
from legroom.testing import FakeMachine, FakeRing


def test_a_fake_that_is_given_goes_before_the_questions_own():
    ring = FakeRing(bandwidth=1e7)
    for kind in record_kinds().values():
        fakes = [fake for fake in FakeMachine(ring).others if kind.request in fake.ANSWERS]
        assert len(fakes) == (2 if kind.request in FakeRing.ANSWERS else 1)
        assert (fakes[0] is ring) == (kind.request in FakeRing.ANSWERS)


def test_a_request_that_no_fake_answers_is_told_by_its_name():
    class Weigh(Request):
        pass

    with pytest.raises(AssertionError, match=r"No fake answers Weigh\. Pass one"):
        FakeMachine().start(JobAddress(text="digits"), {}).ask(Weigh())
