"""The built-in jobs in a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from legroom.workloads import Workload
from legroom.workloads.readers.published import DataPlace

LAST_WORDS = (
    "Options are set by --with name=value; --data DIR is short for --with data=DIR. Without it, data sets are looked "
    "for in the folder that LEGROOM_DATA names; --with data=synthetic does without them."
)


def print_jobs(console: Console, workloads: Sequence[Workload]) -> None:
    """The built-in jobs, each with its number of parameters, its data and its options."""
    for workload in workloads:
        console.print(f"[bold]{workload.name}[/bold]  {escape(workload.summary)}", highlight=False)
        _print_grid(console, [("parameters", _count_words(workload)), *_data_rows(workload.data)])
        options = workload.options.items()
        _print_grid(console, [(f"{name}={default}", workload.meanings.get(name, "")) for name, default in options])
        console.print()
    console.print(LAST_WORDS)


def _print_grid(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, words in rows:
        table.add_row(f"    {escape(name)}", f"[dim]{escape(words)}[/dim]")
    console.print(table)


def _count_words(workload: Workload) -> str:
    counts = [f"{count:,}{f' with {option}' if option else ''}" for option, count in workload.parameters.items()]
    return f"{'; '.join(counts)}; changed by {', '.join(workload.sized_by)}"


def _data_rows(places: Sequence[DataPlace]) -> Iterable[tuple[str, str]]:
    for number, place in enumerate(places):
        asked = f"with {place.option}: " if place.option else ""
        found = "found" if place.found else f"not found; published at {place.published_at}"
        yield "" if number else "data set", f"{asked}{place.title}, in {place.path}: {found}"
