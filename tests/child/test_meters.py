"""The meter of a card, against a planted one: peaks, caps, retries, and memory that torch does not know of."""

from types import SimpleNamespace

import pytest
import torch

from legroom.child.meters import CardMeter

TOTAL = 1000


class Card:
    """Numbers that torch and the driver would tell."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.num_retries = 0
        self.others = 100
        """Used by others, or by the job outside torch."""
        self.cap = None


@pytest.fixture
def card(monkeypatch):
    card = Card()
    planted = {
        "is_available": lambda: True,
        "init": lambda: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda: None,
        "set_per_process_memory_fraction": lambda share: setattr(card, "cap", share),
        "get_device_properties": lambda index: SimpleNamespace(name="Planted", major=9),
        "mem_get_info": lambda: (TOTAL - card.others - card.reserved, TOTAL),
        "max_memory_allocated": lambda: card.allocated,
        "max_memory_reserved": lambda: card.reserved,
        "memory_reserved": lambda: card.reserved,
        "memory_stats": lambda: {"num_alloc_retries": card.num_retries},
    }
    for name, function in planted.items():
        monkeypatch.setattr(torch.cuda, name, function)
    monkeypatch.setattr(CardMeter, "first_used_bytes", None)
    return card


def test_peaks_are_allocated_bytes_and_the_most_reserved_stands_beside_them(card):
    meter = CardMeter(cap_bytes=500)
    assert card.cap == 0.5
    for card.allocated, card.reserved in ((30, 40), (20, 60), (10, 50)):
        assert meter.take_peak() == card.allocated
        meter.end_step()
    assert meter.reserved() == {"reserved": 60}
    assert meter.report() == {"outcome": "measured", "step_reserved_bytes": [40, 60, 50], "outside_bytes": 0}


@pytest.mark.parametrize(("first", "outcome"), [(0, "measured"), (1, "measured"), (2, "retried"), (4, "retried")])
def test_retries_of_the_first_two_steps_are_no_fault_and_later_ones_are(card, first, outcome):
    meter = CardMeter(cap_bytes=None)
    for step in range(5):
        card.num_retries += step == first
        meter.end_step()
    assert meter.report()["outcome"] == outcome


def test_what_the_job_takes_beside_torch_is_told_and_what_was_there_before_is_not(card):
    CardMeter(cap_bytes=None)
    card.others += 70
    assert CardMeter(cap_bytes=None).report()["outside_bytes"] == 70
