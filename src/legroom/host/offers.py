"""Cards that can be rented, as one writes them: h100=2.9/h,l4=0.7/h."""

import math

from legroom.errors import UsageError
from legroom.host.cards import CARDS, check_card, peaks_of, usable_bytes
from legroom.laws.roofline import Offer, Peaks

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
