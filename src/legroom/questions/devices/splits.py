"""Beyond data parallelism: memory and step of one model cut over devices, by weights, within layers, or by layers.

    FSDP       memory / N + activations                 step + 3 (N-1)/N bytes / bandwidth and 3 copies, less what the
                                                        pass hides
    tensor     (memory + activations) / N               step / N + 2 all-reduces of activations for each pair of layers
    pipeline   (memory + activations) / N               step / N / (1 - bubble) + handing activations on
    bubble     (N - 1) / (m + N - 1) with m micro-batches

FSDP gathers weights for both passes and scatters summed gradients, 1.5 times the bytes of an all-reduce: S. Rajbhandari
et al., ZeRO (2020), section 7.2.1. Tensor: M. Shoeybi et al., Megatron-LM (2019), section 3: two layers cut by columns,
then rows, need one all-reduce each way. Pipeline and its bubble: Y. Huang et al., GPipe (2019), section 2.3. The global
batch is the same in all, so the updates are those of one device: a split is what is left where more samples an update
save none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from legroom.laws.communication import Link, backward_end, ring_seconds
from legroom.questions.devices.evidence import Pass

NUM_MICRO = 4
"""Micro-batches for each stage of a pipeline: the bubble is then a fifth at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to cut, on so many devices."""

    name: str
    num_devices: int
    step_seconds: float
    memory_bytes: float
    """Of each device."""
    link_bytes: float
    """That each device sends in a step."""
    fits: bool | None
    """None where nobody knows the device's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What messages cost besides the link's two numbers, as it is charged to data parallelism too."""

    off: Callable[[float], float] = lambda num_bytes: 1.0
    """Times that a transfer of so many bytes takes longer than the link's two numbers say."""
    stolen: float = 0.0
    """Share of a device's pace that a transfer takes from the pass beside it."""
    copying: float = 0.0
    """Seconds in which the weights are copied into buckets, or back."""
    missed: float = 0.0
    """Seconds that steps with sync exposed beyond their forecast where they were run."""


def bubble_share(num_stages: float, num_micro: float) -> float:
    """Share of a pipeline's time in which a stage waits.

    >>> bubble_share(4, 16), bubble_share(1, 4)
    (0.15789473684210525, 0.0)
    """
    return (num_stages - 1) / (num_micro + num_stages - 1)


def fsdp_seconds(one: Pass, num_bytes: float, num_devices: float, link: Link, charges: Charges) -> tuple[float, float]:
    """Seconds of a sharded step at the batch of `one`, and bytes that each device sends.

    Weights are gathered ahead of the forward pass and again ahead of the backward pass, gradients scattered behind it:
    each pass hides what fits into it.
    """
    part = (num_devices - 1) / num_devices * num_bytes / link.bandwidth + (num_devices - 1) * link.latency
    part *= charges.off(num_bytes)
    forward = backward_end(one.forward + charges.copying, [0.0], [part], charges.stolen)
    backward = backward_end(one.backward + 2 * charges.copying, [0.0], [2 * part], charges.stolen)
    sent = 3 * (num_devices - 1) / num_devices * num_bytes
    return forward + backward + one.update / num_devices, sent


def tensor_seconds(
    one: Pass, layer_bytes: Sequence[int], num_devices: float, link: Link, charges: Charges
) -> tuple[float, float]:
    """Seconds of a step whose layers are cut in N, and bytes that each device sends: nothing hides them.

    Of two layers the second one's output is summed in the forward pass, the first one's input in the backward pass.
    """
    each = [
        charges.off(size) * ring_seconds(size, num_devices, link.latency, link.bandwidth)
        for size in layer_bytes
        if size
    ]
    sent = 2 * (num_devices - 1) / num_devices * sum(layer_bytes)
    return one.seconds / num_devices + sum(each), sent


def pipeline_seconds(one: Pass, boundary_bytes: float, num_devices: float, link: Link) -> tuple[float, float]:
    """Seconds of a step whose layers are dealt out in order, and bytes that each device sends.

    boundary_bytes: what a stage hands to the next for the whole batch.
    """
    num_micro = NUM_MICRO * num_devices
    handed = 2 * (num_micro * link.latency + boundary_bytes / link.bandwidth) if num_devices > 1 else 0.0
    busy = (one.forward + one.backward + one.update) / num_devices
    return busy / (1 - bubble_share(num_devices, num_micro)) + handed, 2 * boundary_bytes


def forecast_splits(
    whole: Pass,
    shared: Pass,
    num_devices: int,
    link: Link,
    *,
    layer_bytes: Sequence[int],
    parameter_bytes: float,
    state_bytes: float,
    activation_bytes: float,
    budget_bytes: float | None,
    charges: Charges,
) -> list[Split]:
    """The three cuts of one global batch on so many devices; `whole` is its step on one, `shared` that of its share."""
    fixed = 2 * parameter_bytes + state_bytes  # weights, gradients, optimizer
    middle = sorted(layer_bytes)[len(layer_bytes) // 2] if layer_bytes else 0
    rows = [
        (
            "fsdp",
            *fsdp_seconds(shared, parameter_bytes, num_devices, link, charges),
            fixed / num_devices + activation_bytes / num_devices,
        ),
        (
            "tensor",
            *tensor_seconds(whole, layer_bytes, num_devices, link, charges),
            (fixed + activation_bytes) / num_devices,
        ),
        ("pipeline", *pipeline_seconds(whole, middle, num_devices, link), (fixed + activation_bytes) / num_devices),
    ]
    return [
        Split(
            name=name,
            num_devices=num_devices,
            step_seconds=seconds + charges.missed,
            memory_bytes=memory,
            link_bytes=sent,
            fits=None if budget_bytes is None else memory <= budget_bytes,
        )
        for name, seconds, sent, memory in rows
    ]
