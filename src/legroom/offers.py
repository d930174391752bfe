"""What a plan's run would take on cards that can be rented: a forecast from what was measured here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from legroom.errors import NothingMeasured
from legroom.host.cards import PEAKS, peaks_of
from legroom.host.offers import read_offers
from legroom.job import Settings
from legroom.laws.roofline import Peaks, forecast_offer, rank_offers
from legroom.laws.time_to_target import compute_seconds
from legroom.logbook import Entry
from legroom.plan_file import Plan
from legroom.requests import DeviceSpeed

NEEDED = ("sizes", "seconds", "fixed_bytes", "bytes_per_sample")


def offers_table(text: str, plan: Plan, factors: Mapping[str, Any], entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The offers for a plan in its file, from the soonest to the latest."""
    return forecast_offers(
        text,
        factors,
        entries,
        machine=plan.machine,
        settings=plan.settings,
        batch_size=plan.value("batch_size"),
        num_steps=plan.value("num_steps"),
    )


def forecast_offers(
    text: str,
    factors: Mapping[str, Any],
    entries: Iterable[Entry],
    *,
    machine: str,
    settings: Settings,
    batch_size: int | None,
    num_steps: int | None,
) -> list[dict[str, Any]]:
    """The offers from the soonest to the latest, each with its place by money; all of it is forecast.

    As many cards are rented as the plan has devices; how they talk to one another there is left out.
    """
    precision, num_devices = settings.precision, settings.num_devices
    offers = [replace(each, price_per_hour=num_devices * each.price_per_hour) for each in read_offers(text, precision)]
    if batch_size is None or num_steps is None or any(not factors.get(name) for name in NEEDED):
        raise NothingMeasured(
            "A forecast for other cards needs a plan with its batch and its updates, and the answer of legroom plan "
            "beside it. Make one with legroom plan"
        )
    here = _here(machine, precision, entries)
    step = settings.accumulation_steps * compute_seconds(batch_size, factors["sizes"], factors["seconds"])
    told = [
        forecast_offer(
            offer,
            here,
            batch_size=batch_size,
            step_seconds=step,
            num_steps=num_steps,
            fixed_bytes=factors["fixed_bytes"],
            bytes_per_sample=factors["bytes_per_sample"],
        )
        for offer in offers
    ]
    money = [each.name for each in rank_offers(told, "money")]
    return [{**asdict(each), "place_by_money": 1 + money.index(each.name)} for each in rank_offers(told)]


def card_of(machine: str) -> str | None:
    """The card of the table that a machine's name holds; None where it is another."""
    words = machine.lower().replace("-", " ").split()
    return next((card for card in PEAKS if card.partition("-")[0] in words), None)


def _here(machine: str, precision: str, entries: Iterable[Entry]) -> Peaks:
    """Peaks of the device that the plan was made on: its maker's where the table has it, else those measured."""
    card = card_of(machine)
    if card is not None:
        flops, num_bytes = peaks_of(card, precision)
        return Peaks(flops_per_second=flops, bytes_per_second=num_bytes)
    names = (f"matmul_{precision}_flops_per_second", "copy_bytes_per_second")
    speeds = [entry.result.values for entry in entries if isinstance(entry.result, DeviceSpeed)]
    for values in speeds:
        if all(name in values for name in names):
            flops, num_bytes = (values[name]["median"] for name in names)
            return Peaks(flops_per_second=flops, bytes_per_second=num_bytes)
    raise NothingMeasured(
        f"Nothing beside the plan tells how fast {machine or 'its device'} is at best. "
        "Run legroom speed with the same --out"
    )
