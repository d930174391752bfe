"""Imports of libraries that make a million objects."""

import gc
import importlib
from types import SimpleNamespace

import pytest

from legroom.child import serve
from legroom.child.__main__ import open_job
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


def test_what_answers_a_request_is_imported_while_the_collector_rests(monkeypatch):
    rests, load = [], importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name: rests.append(not gc.isenabled()) or load(name))
    monkeypatch.setattr(serve, "record_kinds", lambda: {"same": SimpleNamespace(answered_by="operator:is_")})
    request = SimpleNamespace(kind="same")
    assert serve.serve(request, request)
    assert rests == [True]


def test_a_child_spares_the_collector_what_it_imported_before_it_builds_the_job():
    imported, before = [[] for _ in range(1000)], gc.get_freeze_count()
    open_job({"text": "", "options": {}, "pickled": None, "folder": "."}, lambda phase, share=None: None)
    assert gc.get_freeze_count() >= before + len(imported)
