"""Imports of libraries that make a million objects."""

import gc

import pytest

from legroom.imports import uncollected


def test_the_collector_rests_meanwhile_and_works_again_even_after_an_error():
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), uncollected():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_somebody_turned_off_stays_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
