"""Cards that can be rented, ranked: in a terminal and as a table of the page."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from legroom.reports.figures import Column, Table
from legroom.reports.terminal import Grid
from legroom.units import format_seconds

TITLE = "What the run would take elsewhere (forecast from published peaks, nothing was run there)"
COLUMNS = ("card", "batch", "an update", "between", "to the target", "between", "money", "between", "place by money")


def print_offers(console: Console, offers: Sequence[dict[str, Any]]) -> None:
    """The soonest first."""
    console.print(f"\n{TITLE}:")
    grid = Grid(*COLUMNS)
    for offer in offers:
        grid.add_row(*_row(offer))
    console.print(grid)


def offers_on_page(offers: Sequence[dict[str, Any]]) -> Table:
    """The same for the page."""
    columns = [Column(label=label) for label in COLUMNS]
    return Table(name="plan-offers", title=TITLE, columns=columns, rows=[_row(offer) for offer in offers])


def _row(offer: dict[str, Any]) -> list[str]:
    fits = "fits" if offer["fits"] else f"{offer['num_passes']} passes" if offer["seconds"] else "does not fit"
    times = [_cells(offer.get(name), format_seconds) for name in ("step_seconds", "seconds")]  # older answers lack one
    cells = [cell for cells in (*times, _cells(offer["money"], _money)) for cell in cells]
    return [offer["name"], fits, *cells, str(offer["place_by_money"])]


def _cells(forecast: dict[str, float] | None, write: Callable[[float], str]) -> tuple[str, str]:
    if forecast is None:
        return "", ""
    return write(forecast["value"]), f"{write(forecast['low'])} to {write(forecast['high'])}"


def _money(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.2g}"
