"""What CUDA kernels keep and take, measured on a device: the numbers behind legroom's estimates without one.

Needs torch and a CUDA device, nothing else. Writes `cuda_memory.json` to the folder named by OUT (or here).
"""

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

DEVICE = torch.device("cuda")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
RNN_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
LIMIT_SECONDS = 50.0
START = time.perf_counter()


def spent() -> bool:
    """Whether the time set aside is over: what is measured by then is written."""
    return time.perf_counter() - START > LIMIT_SECONDS


def allocated() -> int:
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def watched(run: Callable[[], Any]) -> tuple[Any, int, int]:
    """(result, bytes it keeps, bytes its peak took beyond what it keeps)."""
    before = allocated()
    torch.cuda.reset_peak_memory_stats()
    result = run()
    kept = allocated() - before
    return result, kept, torch.cuda.max_memory_allocated() - before - kept


def measure_rnn(
    kind: str,
    layers: int,
    bidirectional: bool,
    steps: int,
    batch: int,
    units: int,
    inputs: int,
    dtype: str,
    train: bool,
    dropout: float = 0.0,
    batch_first: bool = False,
) -> dict[str, Any]:
    """One layer stack through `_cudnn_rnn`: its reserve, and what forward and backward take for a moment."""
    case = {
        "kind": kind,
        "layers": layers,
        "bidirectional": bidirectional,
        "steps": steps,
        "batch": batch,
        "units": units,
        "inputs": inputs,
        "dtype": dtype,
        "train": train,
        "dropout": dropout,
        "batch_first": batch_first,
    }
    made = {"rnn_tanh": torch.nn.RNN, "rnn_relu": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind]
    options = {"nonlinearity": kind.removeprefix("rnn_")} if kind.startswith("rnn") else {}
    module = (
        made(inputs, units, layers, bidirectional=bidirectional, dropout=dropout, batch_first=batch_first, **options)
        .to(DEVICE, DTYPES[dtype])
        .train(train)
    )
    shape = (batch, steps, inputs) if batch_first else (steps, batch, inputs)
    x = torch.randn(shape, device=DEVICE, dtype=DTYPES[dtype], requires_grad=train)
    chains = layers * (2 if bidirectional else 1)
    state = torch.zeros(chains, batch, units, device=DEVICE, dtype=DTYPES[dtype])
    with torch.no_grad():
        reserve = torch._cudnn_rnn(
            x,
            module._flat_weights,
            4,
            None,
            state,
            state if kind == "lstm" else None,
            RNN_MODES[kind],
            units,
            0,
            layers,
            batch_first,
            0.0,
            train,
            bidirectional,
            [],
            None,
        )[3]
    case["reserve_bytes"] = reserve.numel() * reserve.element_size()
    del reserve
    if not train:
        with torch.no_grad():
            out, case["forward_kept"], case["forward_peak"] = watched(lambda: module(x))
        return case
    out, case["forward_kept"], case["forward_peak"] = watched(lambda: module(x))
    grad = torch.ones_like(out[0])
    out = out[0]
    _, case["backward_kept"], case["backward_peak"] = watched(lambda: out.backward(grad))
    case["weight_bytes"] = sum(p.numel() * p.element_size() for p in module.parameters())
    case["output_bytes"] = out.numel() * out.element_size()
    case["input_bytes"] = x.numel() * x.element_size()
    return case


def rnn_cases() -> list[dict[str, Any]]:
    """A star around one middle shape, then the shapes of known models."""
    base = {
        "kind": "lstm",
        "layers": 2,
        "bidirectional": False,
        "steps": 32,
        "batch": 64,
        "units": 256,
        "inputs": 256,
        "dtype": "fp32",
        "train": True,
    }
    moves: dict[str, list[Any]] = {
        "layers": [1, 2, 4],
        "bidirectional": [False, True],
        "steps": [8, 32, 80, 200],
        "batch": [16, 64, 256, 1024],
        "units": [64, 128, 256, 650, 1024],
        "inputs": [64, 256, 1024],
        "dtype": list(DTYPES),
        "train": [True, False],
        "dropout": [0.0, 0.5],
        "batch_first": [False, True],
    }
    cases = []
    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        for name, values in moves.items():
            cases += [{**base, "kind": kind, name: value} for value in values]
        for layers, two_ways, dtype in itertools.product((1, 2), (False, True), ("fp32", "bf16")):
            cases.append(
                {
                    **base,
                    "kind": kind,
                    "layers": layers,
                    "bidirectional": two_ways,
                    "dtype": dtype,
                    "steps": 21,
                    "batch": 4096,
                    "units": 128,
                    "inputs": 128,
                }
            )
        for batch in (256, 1024):
            cases.append({**base, "kind": kind, "steps": 80, "batch": batch, "units": 650, "inputs": 650})
    unique = {json.dumps(case, sort_keys=True): case for case in cases}
    return list(unique.values())


def measure_convolution(
    shape: tuple[int, ...], weight: tuple[int, ...], stride: int, dtype: str, last: bool
) -> dict[str, Any]:
    """Temporary bytes of one convolution, forward and backward, cuDNN's search switched off."""
    layout = torch.channels_last if last and len(shape) == 4 else torch.contiguous_format
    x = torch.randn(shape, device=DEVICE, dtype=DTYPES[dtype]).to(memory_format=layout).requires_grad_()
    w = torch.randn(weight, device=DEVICE, dtype=DTYPES[dtype]).to(memory_format=layout).requires_grad_()
    run = functional.conv2d if len(shape) == 4 else functional.conv3d
    groups = shape[1] // weight[1]

    def call():
        return run(x, w, None, stride, weight[-1] // 2, 1, groups)

    call().backward(torch.ones_like(call()))  # loads kernels
    x.grad = w.grad = None
    out, kept, forward = watched(call)
    grad = torch.ones_like(out)
    _, kept_backward, backward = watched(lambda: out.backward(grad))

    def size(tensor):
        return tensor.numel() * tensor.element_size()

    return {
        "shape": shape,
        "weight": weight,
        "stride": stride,
        "dtype": dtype,
        "channels_last": last,
        "forward_kept": kept,
        "forward_peak": forward,
        "backward_kept": kept_backward,
        "backward_peak": backward,
        "input_bytes": size(x),
        "output_bytes": size(out),
        "weight_bytes": size(w),
    }


CONVOLUTIONS = [
    ((64, 3, 224, 224), (64, 3, 7, 7), 2),
    ((64, 64, 56, 56), (64, 64, 3, 3), 1),
    ((64, 64, 56, 56), (256, 64, 1, 1), 1),
    ((64, 256, 56, 56), (128, 256, 1, 1), 1),
    ((64, 128, 28, 28), (128, 128, 3, 3), 1),
    ((64, 256, 14, 14), (256, 256, 3, 3), 1),
    ((64, 512, 7, 7), (512, 512, 3, 3), 1),
    ((64, 96, 56, 56), (96, 1, 7, 7), 1),
    ((256, 3, 224, 224), (64, 3, 11, 11), 4),
    ((16, 64, 16, 56, 56), (64, 64, 3, 3, 3), 1),
]


def measure_attention(dtype: str, mask: str, dropout: float, causal: bool, length: int, width: int) -> dict[str, Any]:
    """What attention keeps for backward, and its temporary bytes."""
    q, k, v = (
        torch.randn(8, 12, length, width, device=DEVICE, dtype=DTYPES[dtype], requires_grad=True) for _ in range(3)
    )
    kinds = {
        "none": None,
        "bool": torch.ones(8, 1, length, length, device=DEVICE, dtype=torch.bool),
        "float": torch.zeros(length, length, device=DEVICE, dtype=DTYPES[dtype]),
    }

    def call():
        return functional.scaled_dot_product_attention(q, k, v, kinds[mask], dropout, causal)

    call().sum().backward()
    q.grad = k.grad = v.grad = None
    out, kept, forward = watched(call)
    grad = torch.ones_like(out)
    _, kept_backward, backward = watched(lambda: out.backward(grad))
    return {
        "dtype": dtype,
        "mask": mask,
        "dropout": dropout,
        "causal": causal,
        "length": length,
        "width": width,
        "one_bytes": q.numel() * q.element_size(),
        "out_stride": list(out.stride()),
        "out_node": str(out.grad_fn),
        "forward_kept": kept,
        "forward_peak": forward,
        "backward_kept": kept_backward,
        "backward_peak": backward,
    }


def measure_cublas() -> dict[str, Any]:
    """Bytes cuBLAS keeps after its first product in the main thread and in autograd's."""
    x = torch.randn(256, 256, device=DEVICE, requires_grad=True)
    bias = torch.randn(256, device=DEVICE)
    answer = {}
    out, answer["first_mm"], _ = watched(lambda: x @ x)
    _, answer["first_addmm"], _ = watched(lambda: torch.addmm(bias, x, x).detach())
    _, answer["first_half_mm"], _ = watched(lambda: x.detach().bfloat16() @ x.detach().bfloat16())
    _, answer["first_backward"], _ = watched(lambda: out.sum().backward())
    return {**answer, "own_bytes": 256 * 256 * 4, "reserved": torch.cuda.memory_reserved()}


def measure_autocast(dtype: str) -> dict[str, Any]:
    """When half copies of weights are freed, and what losses under autocast keep."""
    layer = torch.nn.Linear(4096, 4096, bias=False, device=DEVICE)
    x = torch.randn(64, 4096, device=DEVICE)
    before = allocated()
    with torch.autocast("cuda", DTYPES[dtype]):
        layer(x).float().sum()
        inside_with_graph_gone = allocated() - before
        with torch.no_grad():
            layer(x)
        second_call = allocated() - before
    after = allocated() - before
    answer = {
        "dtype": dtype,
        "weight_bytes": 4096 * 4096 * 4,
        "inside": inside_with_graph_gone,
        "second": second_call,
        "after": after,
    }
    logits = torch.randn(2048, 8192, device=DEVICE, dtype=DTYPES[dtype], requires_grad=True)
    target = torch.zeros(2048, device=DEVICE, dtype=torch.long)
    calls = {
        "cross_entropy": lambda: functional.cross_entropy(logits, target),
        "smoothed": lambda: functional.cross_entropy(logits, target, label_smoothing=0.1),
        "log_softmax": lambda: functional.log_softmax(logits, -1).sum(),
        "softmax": lambda: functional.softmax(logits, -1).sum(),
        "layer_norm": lambda: functional.layer_norm(logits, (8192,)).sum(),
        "gelu": lambda: functional.gelu(logits).sum(),
        "dropout": lambda: functional.dropout(logits, 0.1).sum(),
    }
    for name, call in calls.items():
        with torch.autocast("cuda", DTYPES[dtype]):
            loss, kept, peak = watched(call)
        _, kept_backward, backward = watched(loss.backward)
        logits.grad = None
        answer[name] = {"kept": kept, "peak": peak, "backward_kept": kept_backward, "backward_peak": backward}
    return answer | {"logits_bytes": 2048 * 8192 * 2}


def measure_embedding(num_indices: int, dtype: str) -> dict[str, Any]:
    """Temporary bytes of an embedding's backward (it sorts its indices)."""
    table = torch.randn(10_000, 256, device=DEVICE, dtype=DTYPES[dtype], requires_grad=True)
    indices = torch.randint(0, 10_000, (num_indices,), device=DEVICE)
    out, kept, _ = watched(lambda: functional.embedding(indices, table))
    grad = torch.ones_like(out)
    _, kept_backward, backward = watched(lambda: out.backward(grad))
    return {
        "num_indices": num_indices,
        "dtype": dtype,
        "kept": kept,
        "backward_kept": kept_backward,
        "backward_peak": backward,
    }


def gather(measure: Callable[..., dict[str, Any]], cases: list[Any]) -> list[dict[str, Any]]:
    """Every case in turn until time is over; a case that fails says how."""
    found = []
    for case in cases:
        if spent():
            found.append({"left_out": len(cases) - len(found)})
            break
        try:
            found.append(measure(**case) if isinstance(case, dict) else measure(*case))
        except RuntimeError as error:
            found.append({"case": str(case), "error": str(error)[:300]})
        torch.cuda.empty_cache()
    return found


def main() -> None:
    torch.backends.cudnn.benchmark = False
    torch.cuda.init()
    # Small things first: the grid of recurrent layers takes what time is left.
    answer: dict[str, Any] = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    answer["device"], answer["capability"] = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    answer["cublas"] = measure_cublas()
    answer["autocast"] = gather(measure_autocast, [("bf16",), ("fp16",)])
    answer["embedding"] = gather(measure_embedding, list(itertools.product((1000, 100_000, 1_000_000), ("fp32",))))
    attention = itertools.product(DTYPES, ("none", "bool", "float"), (0.0, 0.1), (False,), (197, 512), (64,))
    answer["attention"] = gather(measure_attention, [*attention, ("bf16", "none", 0.0, True, 512, 128)])
    convolutions = [
        (*c, d, last) for c in CONVOLUTIONS for d in DTYPES for last in ((False, True) if len(c[0]) == 4 else (False,))
    ]
    answer["convolution"] = gather(measure_convolution, convolutions)
    answer["rnn"] = gather(measure_rnn, rnn_cases())
    answer["seconds"] = time.perf_counter() - START
    path = Path(os.environ.get("OUT", ".")) / "cuda_memory.json"
    path.write_text(json.dumps(answer, indent=1))
    print(f"Wrote {path}: {len(answer['rnn'])} recurrent cases in {answer['seconds']:.0f} s")


if __name__ == "__main__":
    main()
