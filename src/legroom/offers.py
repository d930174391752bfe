"""What a plan's run would take on cards that can be rented (h100=2.9/h,l4=0.7/h): forecast from what was seen."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from legroom.errors import NothingMeasured, UsageError
from legroom.host.cards import CARDS, PEAKS, check_card, peaks_of, usable_bytes
from legroom.job import Settings
from legroom.laws.roofline import Offer, Peaks, Work, floor_seconds, forecast_offer, rank_offers
from legroom.laws.time_to_target import compute_seconds, load_seconds, steps_to_target, update_size
from legroom.logbook import Entry
from legroom.plan_file import Plan
from legroom.requests import DeviceSpeed

NEEDED = ("sizes", "seconds", "fixed_bytes", "bytes_per_sample", "least_steps")
MOST_USED = {"a100": "a100-80gb", "v100": "v100-16gb"}
"""Cards of which the table has two, by the name alone: the one that is offered most."""


def read_offers(text: str, precision: str = "fp32") -> list[Offer]:
    """The offers in a text: cards by name and the price of their hour.

    >>> [(offer.name, offer.price_per_hour) for offer in read_offers("h100=2.9/h, l4=0.7/h")]
    [('h100-80gb', 2.9), ('l4-24gb', 0.7)]
    """
    offers = [_offer(word.strip(), precision) for word in text.split(",") if word.strip()]
    names = [offer.name for offer in offers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not offers or twice:
        what = f"names {', '.join(twice)} twice" if twice else "names no card"
        raise UsageError(f"--offers {text!r} {what}. Write each card once with its price, as h100=2.9/h,l4=0.7/h")
    return offers


def _offer(word: str, precision: str) -> Offer:
    name, equals, price = (part.strip() for part in word.partition("="))
    card = _card(name)
    try:
        number = float(price.removesuffix("/h"))
    except ValueError:
        number = math.nan
    if not equals or not 0 <= number < math.inf:
        raise UsageError(f"--offers has {word!r}; write a card and the price of its hour, as {name or 'h100'}=2.9/h")
    flops, num_bytes = peaks_of(card, precision)
    peaks = Peaks(flops_per_second=flops, bytes_per_second=num_bytes)
    return Offer(name=card, price_per_hour=number, memory_bytes=usable_bytes(card), peaks=peaks)


def _card(name: str) -> str:
    """The card that a name or its beginning means."""
    word = name.lower()
    found = [card for card in CARDS if card.partition("-")[0] == word]
    if word in MOST_USED:
        return MOST_USED[word]
    if len(found) == 1:
        return found[0]
    check_card(word)
    return word


def offers_table(text: str, plan: Plan, factors: Mapping[str, Any], entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The offers for a plan in its file, from the soonest to the latest."""
    return forecast_offers(
        text,
        factors,
        entries,
        machine=plan.machine,
        settings=plan.settings,
        batch_size=plan.value("batch_size") or 0,
        is_own=plan.value("num_steps") is None,
    )


def forecast_offers(
    text: str,
    factors: Mapping[str, Any],
    entries: Iterable[Entry],
    *,
    machine: str,
    settings: Settings,
    batch_size: int,
    is_own: bool,
) -> list[dict[str, Any]]:
    """The offers from the soonest to the latest, each with its place by money; all of it is forecast.

    is_own: whether the run is that of the job's own settings, which stay. As many cards are rented as the plan has
    devices; how they talk to one another there is left out.
    """
    precision, num_devices = settings.precision, settings.num_devices
    offers = [replace(each, price_per_hour=num_devices * each.price_per_hour) for each in read_offers(text, precision)]
    is_known = bool(factors.get("own")) if is_own else batch_size > 0
    if not is_known or any(not factors.get(name) for name in NEEDED):
        raise NothingMeasured(
            "A forecast for other cards needs one of the time to the target here, and the answer of legroom plan "
            "beside the plan. Make one with legroom plan"
        )
    here = _here(machine, precision, entries)
    work = (_own_work if is_own else _planned_work)(factors, settings, batch_size)
    reached = (factors.get("flops_per_sample") or 0.0) * batch_size / max(1e-9, work.busy * work.compute_seconds)
    told = [
        forecast_offer(
            offer,
            here,
            work,
            batch_size=batch_size,
            fixed_bytes=factors["fixed_bytes"],
            bytes_per_sample=factors["bytes_per_sample"],
            compute_share=reached / _fastest(machine, here),
        )
        for offer in offers
    ]
    money = [each.name for each in rank_offers(told, "money")]
    return [{**asdict(each), "place_by_money": 1 + money.index(each.name)} for each in rank_offers(told)]


def _planned_work(factors: Mapping[str, Any], settings: Settings, batch_size: int) -> Work:
    """The plan's run here, by the laws that it was made of."""
    size = update_size(batch_size, settings.accumulation_steps, settings.num_devices)
    return _work(
        factors,
        batch_size=batch_size,
        num_workers=settings.num_workers,
        num_passes=settings.accumulation_steps,
        num_steps=steps_to_target(size, factors["least_steps"], factors.get("critical_batch_size") or 0.0),
    )


def _own_work(factors: Mapping[str, Any], settings: Settings, batch_size: int) -> Work:
    """The run of the job's own settings here, as it was seen."""
    own = factors["own"]
    length = {"num_passes": own["num_passes"], "num_steps": own["num_steps"]}
    work = _work({**factors, **own}, batch_size=batch_size, num_workers=settings.num_workers, **length)
    one_pass = max(0.0, own["step_seconds"] - work.update_seconds) / own["num_passes"]
    compute = one_pass if work.num_workers else max(0.0, one_pass - work.load_seconds)
    return replace(work, compute_seconds=compute)


def _work(
    factors: Mapping[str, Any], *, batch_size: float, num_workers: float, num_passes: float, num_steps: float
) -> Work:
    """A run with that batch of a pass."""
    compute = compute_seconds(batch_size, factors["sizes"], factors["seconds"])
    names = ("inline_seconds", "worker_seconds", "contention", "coherence", "core_seconds")
    return Work(
        num_steps=num_steps,
        num_passes=num_passes,
        compute_seconds=compute,
        busy=_busy(factors, compute),
        load_seconds=load_seconds(batch_size, num_workers, *(factors.get(name) or 0.0 for name in names)),
        num_workers=num_workers,
        update_seconds=factors.get("update") or 0.0,
        evaluation_seconds=(factors.get("num_evaluations") or 0.0) * (factors.get("evaluation") or 0.0),
    )


def _busy(factors: Mapping[str, Any], compute: float) -> float:
    """Share of a pass in which the device works: as seen by its own clock, else what grows with the batch."""
    seen: float | None = factors.get("busy")
    if seen is not None:
        return seen
    return max(0.0, 1 - floor_seconds(factors["sizes"], factors["seconds"]) / compute)


def card_of(machine: str) -> str | None:
    """The card of the table that a machine's name holds; None where it is another."""
    words = machine.lower().replace("-", " ").split()
    return next((card for card in PEAKS if card.partition("-")[0] in words), None)


def _fastest(machine: str, here: Peaks) -> float:
    """Operations a second of the device's fastest format: torch takes TF32 for a part of what is in fp32."""
    card = card_of(machine)
    return here.flops_per_second if card is None else peaks_of(card, "bf16")[0]


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
        "Plan again, or run legroom speed without --quick and with the plan's folder as --out"
    )
