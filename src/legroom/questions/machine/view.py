"""The machine in a terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape

from legroom.questions.machine.ask import MachineAnswer
from legroom.reports.terminal import Row, print_remarks, print_rows
from legroom.reports.views import View
from legroom.units import format_bytes


def print_machine(console: Console, answer: MachineAnswer) -> None:
    """What the machine has and how fast it is."""
    console.print(f"[bold]{escape(answer.machine)}[/bold]")
    host = answer.host
    shm = "none" if host["shm_bytes"] is None else format_bytes(host["shm_bytes"])
    rows: list[Row] = [
        ("cores", f"{host['num_cores']}", host["cores_because"]),
        ("memory", format_bytes(host["memory_bytes"]), host["memory_because"]),
        ("memory free", format_bytes(host["available_bytes"]), ""),
        ("/dev/shm free", shm, ""),
    ]
    for gpu in answer.gpus:
        free = f"{format_bytes(gpu['free_bytes'])} of {format_bytes(gpu['total_bytes'])} free"
        rows.append((f"GPU {gpu['index']}", gpu["name"], f"{free}, driver {gpu['driver']} {gpu['note']}"))
    for device, values in answer.speeds.items():
        rows += [(f"{device} {name}", text, remark) for name, text, remark in _speed_rows(values)]
    print_rows(console, rows)
    print_remarks(console, answer)


def _speed_rows(values: dict[str, Any]) -> Iterable[Row]:
    for name, value in values.items():
        if isinstance(value, dict) and "median" in value:
            text = f"{value['median'] / 1e9:,.1f} G{'FLOP' if 'flops' in name else 'B'}/s"
            what = name.removesuffix("_flops_per_second").removesuffix("_bytes_per_second").replace("_", " ")
            yield what, text, f"{value['num_repeats']} repeats, spread {value['spread']:.1%}"


VIEW = View(answer=MachineAnswer, print=print_machine)
