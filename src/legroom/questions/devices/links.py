"""Links by name, with the latency and bandwidth that forecasts take where none can be measured."""

import difflib
import re

from legroom.errors import UsageError
from legroom.laws.communication import Link

NAMED_SPREAD = 1.4
"""By which factor a link named and not measured may be off both ways: protocols reach 50 to 90 % of its rate."""

LINKS = {
    "1gbe": (50e-6, 0.117e9),
    "10gbe": (30e-6, 1.1e9),
    "25gbe": (20e-6, 2.8e9),
    "100gbe": (10e-6, 11e9),
    "ib-hdr": (5e-6, 22e9),
    "ib-ndr": (5e-6, 45e9),
    "pcie3": (10e-6, 10e9),
    "pcie4": (8e-6, 20e9),
    "pcie5": (8e-6, 40e9),
    "nvlink2": (6e-6, 120e9),
    "nvlink3": (5e-6, 230e9),
    "nvlink": (5e-6, 350e9),
}
"""Seconds a message and bytes a second each way, as all-reduces see them: the nominal rate less what protocols take,
about 10 to 25 %. Not measured here; nvlink is the fourth generation, with a switch."""

_RATES = {"kb/s": 125.0, "mb/s": 125e3, "gb/s": 125e6, "tb/s": 125e9}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def read_link(text: str) -> Link:
    """The link of that name, or of a rate and a latency: "25Gb/s,20us". A small b counts bits, a large one bytes.

    >>> read_link("10GbE").bandwidth
    1100000000.0
    >>> read_link("25Gb/s,20us").bandwidth, read_link("3GB/s,20us").bandwidth, round(read_link("3GB/s,20us").latency, 9)
    (3125000000.0, 3000000000.0, 2e-05)
    """
    if text.lower() in LINKS:
        latency, bandwidth = LINKS[text.lower()]
        return Link(latency=latency, bandwidth=bandwidth, spread=NAMED_SPREAD)
    number = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    found = re.fullmatch(rf"\s*{number}\s*([kMGT][bB]/s)\s*,\s*{number}\s*(s|ms|us|ns)\s*", text)
    if not found:
        close = difflib.get_close_matches(text.lower(), LINKS, n=2, cutoff=0.5)
        guess = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UsageError(
            f"There is no link {text!r}.{guess} Known: {', '.join(LINKS)}; or write rate and latency: 25Gb/s,20us"
        )
    rate, unit, latency_text, time_unit = found.groups()
    bandwidth = float(rate) * _RATES[unit.lower()] * (8 if unit[1] == "B" else 1)
    if bandwidth <= 0:
        raise UsageError(f"--link {text} moves nothing. Write a rate above 0, such as 25Gb/s,20us")
    return Link(latency=float(latency_text) * _TIMES[time_unit], bandwidth=bandwidth, spread=1.1)
