"""Forecasts for devices that are not here: laws that every forecast keeps, over random devices."""

import random

import pytest

from legroom.errors import UsageError
from legroom.host.cards import CARDS, PEAKS, peaks_of, usable_bytes
from legroom.laws.roofline import Offer, Peaks, Work, forecast_offer, rank_offers, run_seconds, work_factor
from legroom.offers import read_offers

RUN = {"work": Work(num_steps=1000, compute_seconds=0.1), "batch_size": 64, "fixed_bytes": 1e9, "bytes_per_sample": 1e7}


def planted(number):
    rng = random.Random(number)
    return Peaks(flops_per_second=10 ** rng.uniform(12, 15), bytes_per_second=10 ** rng.uniform(11, 13))


def offer(peaks, *, price=1.0, memory=1e11):
    return Offer(name="planted", price_per_hour=price, memory_bytes=memory, peaks=peaks)


@pytest.mark.parametrize("number", range(40))
def test_the_truth_lies_in_the_range_whatever_binds_and_a_count_of_operations_only_narrows_it(number):
    here, there, rng = planted(number), planted(number + 100), random.Random(number)
    flops, num_bytes, reached = 10 ** rng.uniform(9, 12), 10 ** rng.uniform(7, 10), rng.uniform(0.1, 1.0)

    def seconds(peaks):
        return max(flops / peaks.flops_per_second, num_bytes / peaks.bytes_per_second) / reached

    truth, uncounted = seconds(there) / seconds(here), work_factor(here, there)
    share = flops / here.flops_per_second / seconds(here)
    for told in (uncounted, work_factor(here, there, compute_share=share)):
        assert told.low * (1 - 1e-9) <= truth <= told.high * (1 + 1e-9)
        assert told.low <= told.value <= told.high
        assert uncounted.low <= told.low
        assert told.high <= uncounted.high


def test_a_step_at_the_peak_of_operations_takes_what_their_peaks_say():
    here = Peaks(flops_per_second=1e13, bytes_per_second=1e12)
    there = Peaks(flops_per_second=2e13, bytes_per_second=9e12)
    assert work_factor(here, there).low < 0.5
    told = work_factor(here, there, compute_share=1.3)
    assert (told.low, told.value, told.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("number", range(20))
def test_the_same_device_takes_as_long_and_no_device_less_than_what_its_host_does(number):
    rng = random.Random(number)
    names = ("compute_seconds", "busy", "load_seconds", "update_seconds", "evaluation_seconds")
    words = {name: rng.random() for name in names}
    work = Work(num_steps=100, num_passes=rng.randint(1, 3), num_workers=rng.randint(0, 2), **words)
    assert work_factor(planted(number), planted(number)).value == pytest.approx(1.0)
    host = (1 - work.busy) * work.compute_seconds * work.num_passes + work.update_seconds
    assert run_seconds(work, 1e-9) >= 100 * host
    assert run_seconds(work, 0.1) <= run_seconds(work, 1.0) <= run_seconds(work, 10.0)


def test_a_batch_that_does_not_fit_is_made_of_passes_and_what_fits_nothing_is_ranked_last():
    here = planted(1)
    small = forecast_offer(offer(here, memory=1.2e9), here, **RUN)
    none = forecast_offer(offer(planted(3), memory=0.9e9), here, **RUN)
    assert (small.fits, small.largest_batch, small.num_passes) == (False, 20, 4)
    assert (none.step_seconds, none.seconds, none.money) == (None, None, None)
    assert small.seconds.value == pytest.approx(1000 * small.step_seconds.value)
    assert rank_offers([none, small]) == [small, none]


def test_the_fastest_need_not_be_the_cheapest():
    here = Peaks(flops_per_second=1e13, bytes_per_second=1e12)
    twice = Peaks(flops_per_second=2e13, bytes_per_second=2e12)
    fast, slow = offer(twice, price=10.0), offer(here, price=1.0)
    found = [forecast_offer(one, here, **RUN) for one in (fast, slow)]
    assert rank_offers(found, "seconds")[0] is found[0]
    assert rank_offers(found, "money")[0] is found[1]
    assert found[0].seconds.value == pytest.approx(found[1].seconds.value / 2)
    assert found[0].money.value == pytest.approx(5 * found[1].money.value)


def test_every_card_has_memory_and_peaks_and_none_is_faster_in_32_bits_than_in_16():
    assert set(PEAKS) == set(CARDS)
    for card in CARDS:
        (single, memory), (half, same) = peaks_of(card), peaks_of(card, "bf16")
        assert half >= single > 1e12
        assert memory == same > 1e11


def test_offers_are_read_with_the_memory_and_the_peaks_of_their_cards():
    h100, l4 = read_offers("H100=2.9/h, l4-24gb=0.7", "bf16")
    assert (h100.name, h100.price_per_hour, h100.memory_bytes) == ("h100-80gb", 2.9, usable_bytes("h100-80gb"))
    assert (l4.name, l4.peaks.flops_per_second) == ("l4-24gb", 121e12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no card"),
        ("h100", "'h100'; write a card and the price of its hour"),
        ("h100=cheap", "the price of its hour"),
        ("h100=-1/h", "the price of its hour"),
        ("h10=2/h", "There is no card 'h10'.*h100"),
        ("l4=1/h,l4-24gb=2/h", "names l4-24gb twice"),
    ],
)
def test_offers_that_cannot_be_read_are_refused_with_a_way_forward(text, message):
    with pytest.raises(UsageError, match=message):
        read_offers(text)
