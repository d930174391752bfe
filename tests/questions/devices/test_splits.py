"""Steps of cut models, against numbers worked out by hand."""

import pytest

from legroom.laws.communication import Link
from legroom.questions.devices.evidence import Pass
from legroom.questions.devices.splits import Charges, fsdp_seconds, pipeline_seconds, tensor_seconds

ONE = Pass(forward=1.0, backward=2.0, update=0.5, gradient_bytes=[4], ready_seconds=[2.0])
LINK = Link(latency=0.0, bandwidth=1e9)
FREE = Charges()


def test_fsdp_hides_what_fits_into_each_pass_and_moves_three_times_the_share():
    # 4 GB over 4 devices: 3 s ahead of the forward pass of 1 s, 6 s beside the backward pass of 2 s, a quarter update.
    assert fsdp_seconds(ONE, 4e9, 4, LINK, FREE) == (pytest.approx(3 + 6 + 0.125), pytest.approx(9e9))
    hidden, _ = fsdp_seconds(ONE, 4e8, 4, LINK, FREE)
    assert hidden == pytest.approx(1 + 2 + 0.125)


def test_fsdp_pays_for_copies_for_stolen_cores_and_for_what_the_link_is_slower():
    # Each transfer takes twice as long, 0.6 s and 1.2, and takes half the pace; weights are copied once and twice.
    charges = Charges(off=lambda num_bytes: 2.0, stolen=0.5, copying=0.1)
    seconds, _ = fsdp_seconds(ONE, 4e8, 4, LINK, charges)
    assert seconds == pytest.approx((1.1 + 0.3) + (2.2 + 0.6) + 0.125)


def test_tensor_splits_share_the_step_and_hide_no_sum():
    # Two layers of 1 GB on 2 devices: each ring moves 1 GB, a second; half of 3.5 s besides.
    assert tensor_seconds(ONE, [10**9, 10**9], 2, LINK, FREE) == (pytest.approx(2 + 1.75), pytest.approx(2e9))


def test_a_pipeline_waits_for_its_bubble_and_hands_activations_on_and_back():
    # 4 stages, 16 micro-batches: 3/19 of the time is bubble, so 3.5 s / 4 take 19/16 as long; 1 GB there and back.
    seconds, sent = pipeline_seconds(ONE, 1e9, 4, LINK)
    assert seconds == pytest.approx(0.875 * 19 / 16 + 2)
    assert sent == pytest.approx(2e9)
