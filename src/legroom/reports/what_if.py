"""The run of a plan under other circumstances: its controls on the page, and its time over batch size by parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from legroom.laws import communication, time_to_target, what_if
from legroom.laws.what_if import Factors
from legroom.reports.figures import Axis, Figure, Mark, Series, WhatIf
from legroom.reports.laws_in_js import translate

PARTS = ("compute", "waiting for data", "update", "communication", "evaluation")
"""Of a run, in the order of `what_if.run_parts`."""
TOTAL = "whole, and its range"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One number that the reader may change."""

    name: str
    """Of the factor that it changes."""
    label: str
    """Text above the field; {name} stands for a factor that never changes."""
    scale: float = 1.0
    """The factor's value where the field holds 1."""
    least: float = 0.0
    whole: bool = True
    """Whether only whole numbers make sense."""
    may_be_empty: bool = False
    """Whether the run may do without it."""
    within: str = ""
    """Name of a factor that lists values, between which the field's must lie; empty: any from the least on.

    The control is left out where that list is empty."""


CONTROLS = (
    Control(name="target_value", label="Score or loss to reach", whole=False, within="values"),
    Control(name="batch_size", label="Batch of a pass", least=1),
    Control(name="num_passes", label="Passes an update", least=1),
    Control(name="num_workers", label="Loader workers"),
    Control(name="num_devices", label="Devices", least=1),
    Control(name="device_bytes", label="Memory of a device (GiB)", scale=2**30, least=0.001, whole=False),
    Control(name="bandwidth", label="Link (GB/s)", scale=1e9, least=0.001, whole=False),
    Control(name="price_per_hour", label="Price of a device's hour", whole=False, may_be_empty=True),
    Control(name="num_steps", label="Updates to the plan's target, of {known_size:,.0f} samples", least=1),
    Control(name="critical_batch_size", label="Critical batch size", may_be_empty=True),
)


def shown(control: Control, factors: Factors) -> str:
    """What its field holds at first.

    >>> shown(CONTROLS[5], {"device_bytes": 16 * 2**30}), shown(CONTROLS[9], {"critical_batch_size": None})
    ('16', '')
    """
    value = factors[control.name]  # type: ignore[literal-required]
    if value is None or (control.may_be_empty and not value):
        return ""
    return f"{value / control.scale:.0f}" if control.whole else f"{value / control.scale:.6g}"


def labelled(control: Control, factors: Factors) -> str:
    """What stands above its field."""
    return control.label.format(**factors)


def ends(control: Control, factors: Factors) -> tuple[str, str] | None:
    """The least and the most that its field takes, the latter empty where nothing ends it; None: there is none.

    >>> factors = {"values": [0.5, 0.96], "target_value": 0.97}
    >>> ends(CONTROLS[0], factors), ends(CONTROLS[0], {**factors, "values": []}), ends(CONTROLS[1], factors)
    (('0.5', '0.97'), None, ('1', ''))
    """
    if not control.within:
        return f"{control.least:g}", ""
    values = factors[control.within]  # type: ignore[literal-required]
    all_values = [*values, factors[control.name]]  # type: ignore[literal-required]
    return (f"{min(all_values):.6g}", f"{max(all_values):.6g}") if len(values) > 1 else None


def script() -> str:
    """The laws that the controls compute with, as the page's script."""
    return translate(communication.ring_seconds, time_to_target, what_if)


def doublings(least: float, most: float, own: int) -> list[int]:
    """Batches worth comparing: the run's own, and powers of two between two sizes.

    >>> doublings(8, 100, own=48)
    [8, 16, 32, 48, 64]
    """
    powers = [2**power for power in range(1, 31) if least <= 2**power <= most]
    return sorted({*powers, own})


def time_figure(name: str, shown: WhatIf) -> Figure:
    """Seconds to the target over the samples of an update, the parts of a step stacked."""
    runs = [what_if.at_batch(shown.factors, size) for size in shown.candidates]
    texts = [f"{size:,}" for size in shown.candidates]
    parts = list(zip(*(what_if.run_parts(run) for run in runs), strict=True))
    bars = [Series(name=part, x=texts, y=list(y), style="bars") for part, y in zip(PARTS, parts, strict=True)]
    own = shown.factors["batch_size"] * shown.factors["num_passes"]
    return Figure(
        name=name,
        title=f"Time to {shown.target} against batch size, by the parts of its steps",
        x=Axis(label="samples of an update on a device"),
        y=Axis(label="time", unit="seconds"),
        series=[*bars, _total(texts, [what_if.seconds_range(run) for run in runs])],
        marks=[Mark(axis="x", value=f"{own:,.0f}", label=shown.mark)],
        stacked=True,
    )


def _total(texts: list[str], ranges: Sequence[Sequence[float]]) -> Series:
    low, whole, high = (list(ends) for ends in zip(*ranges, strict=True))
    return Series(name=TOTAL, x=texts, y=whole, low=low, high=high, style="rings")
