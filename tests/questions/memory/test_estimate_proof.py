"""The estimate against batches proved on an H200, for the models of the comparison that need no torchvision."""

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import default_collate

from legroom.job import Settings
from legroom.laws.memory import UNBOUNDED
from legroom.questions.memory.allocator.estimate import MemoryEstimate
from legroom.questions.memory.allocator.replay import Kind
from legroom.questions.memory.child.cuda_rules import SLACK_BYTES, SLACK_SHARE
from legroom.questions.memory.child.trace import trace

ROOT = Path(__file__).parents[3]
ROWS = [
    row
    for row in map(json.loads, (ROOT / "validation/2026-11-15-h200-memory/proof.jsonl").read_text().splitlines())
    if "error" not in row and row["cell"]["model"] in ("word_lstm", "bigru")
]
TOLERANCE = 0.035
"""Of the sizes between which a proof leaves the limit. All are met within 2 %, but for one that chance decides: bigru
retried at 7,844 in the second run and ran at 7,919 in the fourth."""


@pytest.fixture(params=ROWS, ids=lambda row: "-".join(str(value) for value in row["cell"].values()))
def row(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def estimate(row: Any, monkeypatch: pytest.MonkeyPatch) -> MemoryEstimate:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return traced(*(row["cell"][name] for name in ("model", "optimizer", "precision")))


@cache
def traced(model: str, optimizer: str, precision: str) -> MemoryEstimate:
    zoo = importlib.import_module("zoo")
    sample = zoo.make_sample(model)
    settings = Settings(precision=precision)
    return trace(zoo.job(model, optimizer), settings, lambda size: default_collate([sample] * size))


@pytest.mark.parametrize("kind", ["expandable", "default"])
def test_the_limit_lies_between_what_ran_in_new_processes_and_what_did_not(
    row: Any, kind: Kind, estimate: MemoryEstimate
) -> None:
    proofs = [probe for probe in row["probes"] if probe["proof"] and probe.get("allocator", "expandable") == kind]
    ran = [probe["batch_size"] for probe in proofs if probe["outcome"] == "measured"]
    failed = [probe["batch_size"] for probe in proofs if probe["outcome"] != "measured"]
    found = estimate.reserves[kind].largest_batch(row["cell"]["cap_gib"] * 2**30)
    assert found >= max(ran, default=0) * (1 - TOLERANCE)
    assert found < min(failed, default=UNBOUNDED) * (1 + TOLERANCE)


def test_the_better_allocator_is_the_one_that_proofs_found_better(row: Any, estimate: MemoryEstimate) -> None:
    ran = [probe for probe in row["probes"] if probe["proof"] and probe["outcome"] == "measured"]
    if max(ran, key=lambda probe: probe["batch_size"]).get("allocator") != "default":
        pytest.skip("growing segments were proved, and the default allocator was not")
    assert estimate.allocator(row["cell"]["cap_gib"] * 2**30) == "default"


def test_allocated_peaks_are_met_at_every_size(row: Any, estimate: MemoryEstimate) -> None:
    for probe in row["probes"]:
        if not probe["phase_bytes"]:  # it ran out of memory
            continue
        measured = max(probe["phase_bytes"][phase] for phase in ("forward", "backward", "update"))
        allocated = (estimate.train.at(probe["batch_size"]) - SLACK_BYTES) / (1 + SLACK_SHARE)
        assert allocated == pytest.approx(measured, rel=0.01)
