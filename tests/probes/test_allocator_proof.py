"""The estimate against batches proved on an H200, for the models of the comparison that need no torchvision."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import default_collate

from legroom.job import Settings
from legroom.laws.ledger import MemoryEstimate
from legroom.probes.cuda_rules import SLACK_BYTES, SLACK_SHARE
from legroom.probes.memory_trace import trace

ROOT = Path(__file__).parents[2]
ROWS = [
    row
    for row in map(json.loads, (ROOT / "validation/2026-11-15-h200-memory/proof.jsonl").read_text().splitlines())
    if "error" not in row and row["cell"]["model"] in ("word_lstm", "bigru")
]
TOLERANCE = 0.19
"""Of the proved batch. Four are met within 13 %, bigru's second proof within 18.1 %; without the allocator's replay
they were 37 to 72 % too high."""


@pytest.fixture(params=ROWS, ids=lambda row: "-".join(str(value) for value in row["cell"].values()))
def row(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def estimate(row: Any, monkeypatch: pytest.MonkeyPatch) -> MemoryEstimate:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    zoo, cell = importlib.import_module("zoo"), row["cell"]
    sample = zoo.make_sample(cell["model"])
    return trace(
        zoo.job(cell["model"], cell["optimizer"]),
        Settings(precision=cell["precision"]),
        lambda size: default_collate([sample] * size),
    )


def test_largest_batch_is_near_the_proved_one_and_below_all_that_retried(row: Any, estimate: MemoryEstimate) -> None:
    found = estimate.largest_batch(row["cell"]["cap_gib"] * 2**30)
    assert found == pytest.approx(row["batch_size"], rel=TOLERANCE)
    assert found < min(
        probe["batch_size"] for probe in row["probes"] if probe["proof"] and probe["outcome"] != "measured"
    )


def test_allocated_peaks_are_met_at_every_size(row: Any, estimate: MemoryEstimate) -> None:
    for probe in row["probes"]:
        if not probe["phase_bytes"]:  # it ran out of memory
            continue
        measured = max(probe["phase_bytes"][phase] for phase in ("forward", "backward", "update"))
        allocated = (estimate.train.at(probe["batch_size"]) - SLACK_BYTES) / (1 + SLACK_SHARE)
        assert allocated == pytest.approx(measured, rel=0.01)
