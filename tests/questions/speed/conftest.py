"""Planted machines have their threads; those of whoever runs the tests are no matter."""

import pytest


@pytest.fixture(autouse=True)
def own_threads(monkeypatch):
    """With one thread named, as on a shared machine, sleeping or fewer ones would not be tried."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
