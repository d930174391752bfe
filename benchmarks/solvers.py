"""LARS and LAMB against torch's fused SGD and AdamW on ResNet-50's parameters, and as a share of its training step.

python benchmarks/solvers.py            CUDA where there is one, else the CPU; under a minute on CUDA
python benchmarks/solvers.py --check    Triton's kernels against foreach operations in float64 over 20 steps
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from legroom.training.optimizers.lamb import Lamb
from legroom.training.optimizers.lars import Lars

NUM_PARAMETERS = 25_557_032
Make = Callable[[list[dict]], torch.optim.Optimizer]
PAIRS: dict[str, tuple[Make, Make]] = {
    "Lars / fused SGD": (
        lambda groups: Lars(groups, 0.1),
        lambda groups: torch.optim.SGD(groups, 0.1, momentum=0.9, fused=True),
    ),
    "Lamb / fused AdamW": (
        lambda groups: Lamb(groups, 1e-3),
        lambda groups: torch.optim.AdamW(groups, 1e-3, fused=True),
    ),
}


def resnet50_shapes() -> list[tuple[int, ...]]:
    """The shapes of ResNet-50's 161 parameter tensors (He et al., 2015, table 1), 1000 classes."""
    shapes: list[tuple[int, ...]] = []

    def convolution(num_out: int, num_in: int, size: int) -> None:
        shapes.extend([(num_out, num_in, size, size), (num_out,), (num_out,)])

    convolution(64, 3, 7)
    num_in = 64
    for width, num_blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(num_blocks):
            convolution(width, num_in, 1)
            convolution(width, width, 3)
            convolution(4 * width, width, 1)
            if block == 0:
                convolution(4 * width, num_in, 1)
            num_in = 4 * width
    shapes.extend([(1000, num_in), (1000,)])
    assert len(shapes) == 161
    assert sum(torch.Size(shape).numel() for shape in shapes) == NUM_PARAMETERS
    return shapes


def make_groups(device: str, *, split: bool, rival: bool) -> list[dict]:
    """Fresh parameters with gradients; split: biases and norms in a group of their own, for both sides alike."""
    params = [nn.Parameter(torch.randn(shape, device=device) * 0.05) for shape in resnet50_shapes()]
    for param in params:
        param.grad = torch.randn_like(param) * 0.01
    if not split:
        return [{"params": params, "weight_decay": 1e-4}]
    groups = [
        {"params": [param for param in params if param.ndim > 1], "weight_decay": 1e-4},
        {"params": [param for param in params if param.ndim <= 1], "weight_decay": 0.0},
    ]
    return groups if rival else [{**group, "adapt": bool(group["weight_decay"])} for group in groups]


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_per_step(step: Callable[[], object], device: str, num_steps: int) -> float:
    """Wall time of a step, of num_steps in a row; the device is idle before and after."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(num_steps):
        step()
    synchronize(device)
    return (time.perf_counter() - start) / num_steps


def interval(values: list[float]) -> str:
    """Median and an interval that holds it with about 95 %, by ranks."""
    values = sorted(values)
    reach = 0.98 * len(values) ** 0.5
    low = values[max(0, int(len(values) / 2 - reach))]
    high = values[min(len(values) - 1, int(len(values) / 2 + reach))]
    return f"{statistics.median(values):.2f} [{low:.2f}, {high:.2f}]"


def with_moving_gradient(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """A step in which one gradient lies elsewhere than before, as after zero_grad(): tables are sent again."""
    param = optimizer.param_groups[0]["params"][0]
    other = param.grad.clone()

    def step() -> None:
        nonlocal other
        param.grad, other = other, param.grad
        optimizer.step()

    return step


def host_seconds(step: Callable[[], object], device: str) -> float:
    """Time until a step returns, the device being idle before."""
    times = []
    for _ in range(20 if device == "cuda" else 2):
        synchronize(device)
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compare(name: str, device: str, num_pairs: int, num_steps: int, *, split: bool) -> float:
    """Prints the ratio over interleaved pairs; returns our median seconds."""
    ours = with_moving_gradient(PAIRS[name][0](make_groups(device, split=split, rival=False)))
    theirs = PAIRS[name][1](make_groups(device, split=split, rival=True)).step
    for step in (ours, theirs):
        seconds_per_step(step, device, 3)
    pairs = [
        (seconds_per_step(ours, device, num_steps), seconds_per_step(theirs, device, num_steps))
        for _ in range(num_pairs)
    ]
    mine, rival = (statistics.median(column) for column in zip(*pairs, strict=True))
    groups = "weights | biases and norms" if split else "one group"
    ratio = interval([one / other for one, other in pairs])
    host = " / ".join(f"{host_seconds(step, device) * 1e6:.0f} us" for step in (ours, theirs))
    times = f"{mine * 1e6:8.0f} us / {rival * 1e6:8.0f} us = {ratio}"
    print(f"{name:20} {groups:27} {times}, of the host {host}", flush=True)
    return mine


def check(name: str, device: str, num_steps: int) -> bool:
    """Steps float32 and float64 parameters side by side; whether they end close, and on CUDA without a wait."""
    torch.manual_seed(0)
    groups = make_groups(device, split=True, rival=False)
    exact = [{**group, "params": [nn.Parameter(p.detach().double()) for p in group["params"]]} for group in groups]
    optimizers = PAIRS[name][0](groups), PAIRS[name][0](exact)
    pairs = [
        pair for one, two in zip(groups, exact, strict=True) for pair in zip(one["params"], two["params"], strict=True)
    ]
    for index in range(num_steps):
        for param, other in pairs:
            param.grad = torch.randn_like(param) * 0.01
            other.grad = param.grad.double()
        if device == "cuda" and index:  # the first step compiles
            torch.cuda.set_sync_debug_mode("error")
        for optimizer in optimizers:
            optimizer.step()
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    worst = max(((param - other).abs().max() / other.abs().max()).item() for param, other in pairs)
    by_kernels = all(bucket.table for _, buckets in optimizers[0]._buckets.values() for bucket in buckets)
    path = "Triton's kernels" if by_kernels else "foreach operations (no kernels here)"
    print(f"{name.split()[0]}: {path} in float32 end within {worst:.1e} of foreach operations in float64")
    return worst < 1e-5 and (by_kernels or device != "cuda")


def training_step(device: str, *, half: bool, batch_size: int) -> Callable[[], None] | None:
    """Forward and backward of ResNet-50 without an update; None where torchvision is missing."""
    try:
        from torchvision.models import resnet50
    except ImportError:
        return None
    model = resnet50().to(device, memory_format=torch.channels_last)
    images = torch.randn(batch_size, 3, 224, 224, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch_size,), device=device)

    def step() -> None:
        model.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--check", action="store_true", help="compare results, not times")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=0, help="steps in a row (default: 50 on CUDA, 2 on the CPU)")
    parser.add_argument("--batch-size", type=int, default=128)
    arguments = parser.parse_args()
    device = arguments.device
    num_steps = arguments.steps or (50 if device == "cuda" else 2)
    print(torch.__version__, torch.cuda.get_device_name() if device == "cuda" else "CPU")
    if arguments.check:
        passed = [check(name, device, num_steps=20 if device == "cuda" else 2) for name in PAIRS]
        sys.exit(0 if all(passed) else 1)
    seconds = {}
    for name in PAIRS:
        compare(name, device, arguments.pairs, num_steps, split=False)
        seconds[name] = compare(name, device, arguments.pairs, num_steps, split=True)
    if device != "cuda":
        print("The share of a training step is measured on CUDA only.")
        return
    for half in (True, False):
        step = training_step(device, half=half, batch_size=arguments.batch_size)
        if step is None:
            print("torchvision is missing: the share of a ResNet-50 training step was not measured.")
            return
        seconds_per_step(step, device, 3)
        whole = statistics.median(seconds_per_step(step, device, 5) for _ in range(3))
        for name, own in seconds.items():
            share = own / (whole + own)
            precision = "bfloat16 autocast" if half else "float32"
            print(f"{name.split()[0]}: {share:.2%} of a {precision} step at batch {arguments.batch_size}")


if __name__ == "__main__":
    main()
