"""The laws of CUDA's kernels against what an H200 showed: every case measured, misses included."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from legroom.questions.memory.allocator.trace_law import Trace
from legroom.questions.memory.child import cuda_rnn, cuda_rules
from legroom.questions.memory.child.cuda_rnn import Call
from legroom.questions.memory.child.cuda_workspace import convolution_bytes, embedding_bytes, workspace_of
from legroom.questions.memory.child.quick_fake import QuickFakeMode
from legroom.questions.memory.child.storage_ledger import Ledger

MEASURED = json.loads(
    (Path(__file__).parents[3] / "validation/2026-11-15-h200-cuda-memory/cuda_memory.json").read_text()
)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ROUNDING = 1.6 * 2**20
"""The plain allocator hands out blocks up to 1 MiB larger than asked for."""
NUM_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def call_of(case: dict[str, Any]) -> Call:
    return Call(
        kind=case["kind"],
        num_states=2 if case["kind"] == "lstm" else 1,
        num_layers=case["layers"],
        num_directions=2 if case["bidirectional"] else 1,
        train=case["train"],
        batch_first=case["batch_first"],
        packed=False,
        values=tuple,
    )


def num_weights(case: dict[str, Any]) -> int:
    directions, units = 2 if case["bidirectional"] else 1, case["units"]
    inputs = [case["inputs"]] + [directions * units] * (case["layers"] - 1)
    return sum(directions * NUM_GATES[case["kind"]] * units * (width + units + 2) for width in inputs)


def test_reserve_of_recurrent_layers_is_exact() -> None:
    for case in MEASURED["rnn"]:
        kept = call_of(case).reserve(case["steps"] * case["batch"], case["units"]) * DTYPES[case["dtype"]].itemsize
        assert case["reserve_bytes"] == (kept + 256 if case["train"] else 0)


FITTED = ("lstm", "gru", "rnn", "stream")
"""The constants of the workspace that no count of tensors gives: the small kernels' elements, and bytes a stream."""


def workspace_with(case: dict[str, Any], constants: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> float:
    lstm, gru, plain, stream = constants
    more = {"lstm": lstm, "gru": gru, "rnn_tanh": plain, "rnn_relu": plain}
    monkeypatch.setattr(cuda_rnn, "SMALL", {kind: (most, more[kind]) for kind, (most, _) in cuda_rnn.SMALL.items()})
    monkeypatch.setattr(cuda_rnn, "STREAM_BYTES", stream * 2**20)
    x = torch.empty((case["steps"], case["batch"], case["inputs"]), device="meta", dtype=DTYPES[case["dtype"]])
    found = call_of(case).workspace(x, case["units"], case["batch"], num_weights(case))
    return found + x.numel() * x.element_size() * case["batch_first"]


def equations(cases: Sequence[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Shares of each pass's peak that the constants are multiplied by, and that they have to make up together."""
    rows, wanted = [], []
    for case in cases:
        plain = workspace_with(case, (0, 0, 0, 0), monkeypatch)
        row = [workspace_with(case, unit, monkeypatch) - plain for unit in np.eye(len(FITTED))]
        peaks = [(case["forward_kept"] + case["forward_peak"], case["forward_peak"])]
        if case["train"]:
            peaks.append((case["backward_peak"], case["backward_peak"] - case["reserve_bytes"]))
        rows += [[value / peak for value in row] for peak, _ in peaks]
        wanted += [(taken - plain) / peak for peak, taken in peaks]
    return np.array(rows), np.array(wanted)


def test_workspace_of_recurrent_layers_is_near_in_calls_it_was_not_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = [equations(MEASURED["rnn"][start::2], monkeypatch) for start in (0, 1)]
    errors: list[float] = []
    for (rows, wanted), (held_rows, held_wanted) in (halves, halves[::-1]):
        constants = np.linalg.lstsq(rows, wanted)[0]
        errors += list(abs(held_rows @ constants - held_wanted))
    assert len(errors) == 260
    assert median(errors) < 0.02
    assert max(errors) < 0.16


def test_the_constants_of_that_workspace_are_those_of_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [cuda_rnn.SMALL["lstm"][1], cuda_rnn.SMALL["gru"][1], cuda_rnn.SMALL["rnn_tanh"][1]]
    used.append(cuda_rnn.STREAM_BYTES / 2**20)
    rows, wanted = equations(MEASURED["rnn"], monkeypatch)
    best = np.linalg.lstsq(rows, wanted)[0]
    misses = [float(np.square(rows @ constants - wanted).sum()) for constants in (used, best)]
    assert misses[0] < 1.1 * misses[1]


def test_copies_of_convolutions_are_near() -> None:
    errors = []
    for case in MEASURED["convolution"]:
        dtype = DTYPES[case["dtype"]]
        x, weight = (torch.empty(case[name], device="meta", dtype=dtype) for name in ("shape", "weight"))
        if case["channels_last"]:
            x = x.to(memory_format=torch.channels_last)
        out = torch.empty(case["output_bytes"] // dtype.itemsize, device="meta", dtype=dtype)
        for name in ("forward", "backward"):
            found = convolution_bytes(x, weight, out, x.shape[1] // weight.shape[1], backward=name == "backward")
            errors.append(abs(found - case[f"{name}_peak"]) / (case["input_bytes"] + case["output_bytes"]))
    assert len(errors) == 114
    assert median(errors) < 0.01
    assert sum(error <= 0.15 for error in errors) == 101


def test_backward_of_an_embedding_sorts() -> None:
    for case in MEASURED["embedding"]:
        assert embedding_bytes(case["num_indices"], 256, 10_000) == pytest.approx(
            case["backward_peak"], rel=0.01, abs=ROUNDING
        )


def spent(ledger: Ledger, run: Callable[[], Any]) -> tuple[Any, int, int]:
    """(result, bytes it keeps, bytes its peak took beyond what it keeps)."""
    start = ledger.mark()
    result = run()
    before, after = (totals(ledger.cut(1, 0, mark)) for mark in (start, ledger.mark()))
    kept = after[-1] - before[-1]
    return result, kept, max(after[len(before) - 1 :]) - after[-1]


def totals(trace: Trace) -> list[int]:
    alive: dict[int, int] = {}
    found = [0]
    for event in trace.events:
        alive[event.storage] = event.num_bytes or 0
        found.append(sum(alive.values()))
    return found


ON_LOGITS: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": functional.cross_entropy,
    "smoothed": lambda logits, target: functional.cross_entropy(logits, target, label_smoothing=0.1),
    "log_softmax": lambda logits, target: functional.log_softmax(logits, -1).sum(),
    "softmax": lambda logits, target: functional.softmax(logits, -1).sum(),
    "layer_norm": lambda logits, target: functional.layer_norm(logits, (8192,)).sum(),
    "gelu": lambda logits, target: functional.gelu(logits).sum(),
    "dropout": lambda logits, target: functional.dropout(logits, 0.1).sum(),
}


@pytest.mark.parametrize("name", ON_LOGITS)
@pytest.mark.parametrize("case", MEASURED["autocast"], ids=lambda case: str(case["dtype"]))
def test_autocast_keeps_and_takes_what_cuda_does(name: str, case: dict[str, Any]) -> None:
    dtype = DTYPES[case["dtype"]]
    with cuda_rules.installed(), QuickFakeMode(), Ledger(0, workspace_of) as ledger:
        logits = torch.randn(2048, 8192, dtype=dtype, requires_grad=True)
        target = torch.zeros(2048, dtype=torch.long)

        def forward() -> Any:
            with torch.autocast("cpu", dtype):
                return ON_LOGITS[name](logits, target)

        loss, *found = spent(ledger, forward)
        found += spent(ledger, loss.backward)[1:]
    assert found == pytest.approx(list(case[name].values()), abs=ROUNDING)


@pytest.mark.parametrize("case", MEASURED["attention"])
def test_attention_keeps_and_takes_what_cuda_does(case: dict[str, Any]) -> None:
    length, dtype = case["length"], DTYPES[case["dtype"]]
    with cuda_rules.installed(), QuickFakeMode(), Ledger(0, workspace_of) as ledger:
        q, k, v = (torch.randn(8, 12, length, case["width"], dtype=dtype, requires_grad=True) for _ in range(3))
        kinds = {"bool": torch.ones(8, 1, length, length).bool(), "float": torch.zeros(length, length, dtype=dtype)}
        options = (kinds.get(case["mask"]), case["dropout"], case["causal"])
        out, *forward = spent(ledger, lambda: functional.scaled_dot_product_attention(q, k, v, *options))
        grad = torch.ones_like(out)
        _, kept, beyond = spent(ledger, lambda: out.backward(grad))
    assert list(out.stride()) == case["out_stride"]
    assert forward == pytest.approx([case["forward_kept"], case["forward_peak"]], abs=ROUNDING)
    assert kept + beyond == pytest.approx(case["backward_kept"] + case["backward_peak"], abs=ROUNDING)
