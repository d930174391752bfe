"""Two processes train as one would at the same update size: the same order, weights and evaluations."""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from legroom.child.ranks import run_ranks
from legroom.errors import UsageError
from legroom.job_address import JobAddress
from legroom.training.several_ranks import SeveralRanks

JOBS = Path(__file__).parents[1] / "jobs"


def settings(batch_size, rate=0.1, **more):
    return {"batch_size": batch_size, "learning_rate": rate, **more}


# Each with the batch of one process; two take half of it.
EQUAL = {
    "float64": ({"job": "double", "settings": settings(32), "num_steps": 50}, 1e-5),
    "float32": ({"job": "plain", "settings": settings(32), "num_steps": 50}, 1e-4),
    "accumulated": (
        {
            "job": "plain",
            "settings": settings(32, accumulation_steps=3, clip_norm=0.1),
            "num_steps": 12,
            "tells_wire": True,
        },
        1e-4,
    ),
    # Rows hold unequal numbers of tokens, so ranks weigh unequally.
    "token_counts": (
        {"job": "token_counts", "settings": settings(12, accumulation_steps=2), "num_steps": 20},
        1e-4,
    ),
    # A stream is shared out block by block, to training and to evaluation; 400 samples are no multiple of both batches.
    "iterable": ({"job": "iterable", "settings": settings(24, 1e-2), "num_steps": 30}, 1e-4),
}
SHARDED = {"job": "adam", "settings": settings(32, 1e-2, accumulation_steps=2, clip_norm=0.5), "shard": True}
BUFFERS = {"job": "convnet", "num_steps": 20, "tells_wire": True}
REFUSED = {
    "unused": (
        {"job": "unused", "settings": settings(32), "num_steps": 3},
        r"JobRaised: The parameters 0.spare.weight, 0.spare.bias got no gradient .*find_unused_parameters=True",
    ),
    "unequal": (
        {"job": "plain", "settings": settings(32), "num_steps": 3, "unequal": True},
        "JobRaised: The training data has 100, 99 samples on ranks 0 to 1",
    ),
    "carried state": (
        {"job": "carried_state", "settings": settings(10), "num_steps": 3},
        "UsageError: This job's loader says which batch is the `first`",
    ),
    "few": (
        {"job": "token_counts", "settings": settings(240), "num_steps": 3},
        "UsageError: The training data has 200 samples, fewer than a batch of 120 on each of 2 devices. Use a .* 100",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where sharded runs leave their checkpoint."""
    return tmp_path_factory.mktemp("sharded")


@pytest.fixture(scope="module")
def of_one(tmp_path_factory):
    """Where one process left a checkpoint, amid an epoch."""
    folder = tmp_path_factory.mktemp("one")
    sys.path.insert(0, str(JOBS))
    try:
        import on_ranks
    finally:
        sys.path.remove(str(JOBS))
    case = {"job": "plain", "settings": settings(32, accumulation_steps=2), "num_steps": 10}
    on_ranks.train_case({**case, "folder": str(folder), "resume": False})
    return folder


@pytest.fixture(scope="module")
def of_two(folder, of_one):
    """What two ranks came to, by the name of the case."""
    cases = {name: case for name, (case, _) in (EQUAL | REFUSED).items()}
    cases["dealt"] = {"job": "dealt", "settings": settings(24), "num_steps": 30}
    cases["unused allowed"] = {**REFUSED["unused"][0], "find_unused_parameters": True}
    cases["from one"] = {
        "job": "plain",
        "settings": settings(64),
        "num_steps": 20,
        "folder": str(of_one),
        "resume": True,
    }
    cases["buffers sent"] = {**BUFFERS, "settings": settings(16, 1e-2)}
    cases["buffers kept"] = {
        **BUFFERS,
        "settings": settings(16, 1e-2, broadcast_buffers=False, bucket_cap_mb=4.0),
    }
    cases["sharded"] = {**SHARDED, "num_steps": 10, "folder": str(folder), "resume": False}
    cases["sharded, resumed"] = {**cases["sharded"], "num_steps": 20, "resume": True}
    halves = [
        {**case, "settings": {**case["settings"], "batch_size": case["settings"]["batch_size"] // 2}}
        for case in cases.values()
    ]
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH"), os.pathsep.join([str(JOBS), *sys.path])
    try:
        found = run_ranks(JobAddress(text=""), "on_ranks:train_cases", {"cases": halves}, num_ranks=2, seconds=600)
    finally:
        del os.environ["PYTHONPATH"]
        os.environ |= {} if before is None else {"PYTHONPATH": before}
    assert found[0] == found[1]
    return dict(zip(cases, found[0], strict=True))


@pytest.mark.parametrize("name", EQUAL)
def test_two_ranks_make_the_updates_of_one_at_the_same_update_size(of_two, name, monkeypatch):
    monkeypatch.syspath_prepend(JOBS)
    import on_ranks

    case, tolerance = EQUAL[name]
    alone, together = on_ranks.train_case(case), of_two[name]
    assert together["losses"] == pytest.approx(alone["losses"], rel=tolerance)
    assert together["num_samples"] == alone["num_samples"]
    losses, own_losses = ([loss for loss, _ in each["evaluations"]] for each in (together, alone))
    assert losses == pytest.approx(own_losses, rel=tolerance)
    assert [score for _, score in together["evaluations"]] == [score for _, score in alone["evaluations"]]


def test_ranks_speak_in_the_last_pass_of_an_update_alone(of_two):
    # An epoch of 16 rounds is 5 updates of 3 passes and one of a single pass: 12 updates are two epochs.
    assert of_two["accumulated"]["wire"]["quiet_passes"] == 2 * 5 * 2


def test_parameters_without_gradients_are_trained_with_where_that_is_allowed(of_two):
    assert len(of_two["unused allowed"]["losses"]) == 3


def test_two_ranks_go_on_from_the_checkpoint_of_one_that_made_more_passes_amid_an_epoch(of_two, monkeypatch):
    # 10 updates of 2 passes of 32 are 640 samples: an epoch of 512, and 128 of the next.
    monkeypatch.syspath_prepend(JOBS)
    import on_ranks

    alone = on_ranks.train_case({"job": "plain", "settings": settings(32, accumulation_steps=2), "num_steps": 20})
    assert of_two["from one"]["losses"] == pytest.approx(alone["losses"][10:], rel=1e-4)


def test_sharded_ranks_make_the_same_updates_and_one_process_goes_on_from_their_checkpoint(of_two, folder, monkeypatch):
    monkeypatch.syspath_prepend(JOBS)
    import on_ranks

    alone = on_ranks.train_case({**SHARDED, "num_steps": 30})
    together = [*of_two["sharded"]["losses"], *of_two["sharded, resumed"]["losses"]]
    assert together == pytest.approx(alone["losses"][:20], rel=1e-4)
    assert of_two["sharded, resumed"]["evaluations"][-1] == pytest.approx(alone["evaluations"][1], rel=1e-4)
    went_on = on_ranks.train_case({**SHARDED, "num_steps": 30, "folder": str(folder), "resume": True})
    assert went_on["losses"] == pytest.approx(alone["losses"][20:], rel=1e-4)


def test_buffers_that_are_not_broadcast_change_no_loss_and_settings_reach_torch(of_two):
    sent, kept = of_two["buffers sent"], of_two["buffers kept"]
    assert sent["wire"] == {"broadcast_buffers": True, "bucket_cap_mb": 25.0, "quiet_passes": 0}
    assert kept["wire"] == {"broadcast_buffers": False, "bucket_cap_mb": 4.0, "quiet_passes": 0}
    assert kept["losses"] == pytest.approx(sent["losses"], rel=1e-6), "buckets add up in another order"
    assert [loss for loss, _ in kept["evaluations"]] == pytest.approx(
        [loss for loss, _ in sent["evaluations"]], rel=1e-6
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_ranks_cannot_do_is_refused_in_a_sentence_and_hangs_none(of_two, name):
    assert re.search(REFUSED[name][1], of_two[name])


def test_batchnorm_is_made_to_synchronise_where_asked_for_and_keeps_its_weights(monkeypatch):
    # torch converts on any machine; only its forward pass needs a GPU.
    monkeypatch.syspath_prepend(JOBS)
    import convnet

    model, job = convnet.ConvNet(), convnet.job()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plain = SeveralRanks(0, 2, torch.device("cuda", 0)).prepare(job, model)
    assert kinds(plain) == {nn.BatchNorm1d, nn.BatchNorm2d}
    found = SeveralRanks(0, 2, torch.device("cuda", 0), sync_batch_norm=True).prepare(job, model)
    assert kinds(found) == {nn.SyncBatchNorm}
    assert all(torch.equal(value, before[name]) for name, value in found.state_dict().items())
    with pytest.raises(UsageError, match="BatchNorm on GPUs alone"):
        SeveralRanks(0, 2, torch.device("cpu"), sync_batch_norm=True).prepare(job, model)


def kinds(model):
    """The classes of its layers that normalise over the batch."""
    return {type(each) for each in model.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)}


def test_batches_of_a_jobs_own_loader_are_dealt_out_without_waiting_for_a_rank_that_has_none(of_two):
    # 200 samples in batches of 12 are 17: the first rank has one more, which is left out.
    assert len(of_two["dealt"]["losses"]) == 30
    assert of_two["dealt"]["losses"][-1] < of_two["dealt"]["losses"][0]
