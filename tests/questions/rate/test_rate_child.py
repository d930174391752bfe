"""What a child does for a search: trunks with another optimizer, passes that are joined, noise, whole runs."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from legroom.child.built_job import BuiltJob
from legroom.job import Settings
from legroom.job_address import JobAddress
from legroom.questions.rate.child import branch_batch, grow_trunk, ramp_rate, run_trial
from legroom.questions.rate.records import BranchBatch, GrowTrunk, RampRate, RunTrial
from legroom.training import noise
from legroom.training.branches import Trunk

PLAIN = Path(__file__).parents[2] / "jobs" / "plain.py"


@pytest.fixture
def built():
    return BuiltJob(JobAddress(text=f"{PLAIN}:job"))


def settings(**more):
    return asdict(Settings(**{"batch_size": 16, "learning_rate": 0.1, "num_epochs": 2, **more}))


def test_a_trunk_grown_in_pieces_is_the_one_grown_at_once_noise_looked_at_or_not(built, monkeypatch):
    first = GrowTrunk(device="cpu", settings=settings(), to_step=20)
    last = GrowTrunk(device="cpu", settings=settings(), to_step=44)
    grow_trunk(first, built)
    pieces = grow_trunk(last, built)
    built.kept.clear()
    whole = grow_trunk(last, built)
    assert (pieces.loss, pieces.score) == (whole.loss, whole.score)
    assert pieces.grown_steps == 24
    assert whole.grown_steps == 44
    assert len(whole.small_squares) == 5
    assert pieces.small_squares == whole.small_squares[2:]
    built.kept.clear()
    monkeypatch.setattr(noise, "EVERY", 1000)
    unseen = grow_trunk(last, built)
    assert not unseen.small_squares
    assert unseen.loss == pytest.approx(whole.loss, rel=1e-4)


def test_squares_of_halves_are_larger_than_those_of_whole_batches(built):
    grown = grow_trunk(GrowTrunk(device="cpu", settings=settings(learning_rate=0.01), to_step=60), built)
    assert grown.noise_sizes == (8, 16)
    assert sum(grown.small_squares) > sum(grown.big_squares) > 0


def test_joined_passes_train_as_the_whole_batch_does(built):
    whole = grow_trunk(GrowTrunk(device="cpu", settings=settings(batch_size=32), to_step=10), built)
    joined = settings(batch_size=8, accumulation_steps=4)
    parts = grow_trunk(GrowTrunk(device="cpu", settings=joined, to_step=10), built)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4)
    assert parts.num_samples == whole.num_samples == 320


def test_a_branch_of_joined_passes_is_the_branch_of_the_whole_batch(built):
    words = {"device": "cpu", "settings": settings(), "from_step": 10, "learning_rate": 0.2, "num_steps": 5}
    whole = branch_batch(BranchBatch(**words, batch_size=64, cooldown_steps=2), built)
    parts = branch_batch(BranchBatch(**words, batch_size=16, accumulation_steps=4, cooldown_steps=2), built)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4)
    assert parts.num_samples == whole.num_samples == 10 * 16 + 5 * 64


@pytest.mark.parametrize("solver", ["lars", "lamb"])
def test_another_optimizer_takes_the_place_of_the_jobs_own(built, solver):
    words = {"device": "cpu", "settings": settings(learning_rate=0.03), "to_step": 30}
    own = grow_trunk(GrowTrunk(**words), built)
    other = grow_trunk(GrowTrunk(**words, solver=solver), built)
    start = grow_trunk(GrowTrunk(**{**words, "to_step": 0}), built)
    assert other.loss != own.loss
    assert other.loss < start.loss


def test_a_ramp_ends_where_the_loss_blows_up(built):
    ramp = ramp_rate(RampRate(device="cpu", settings=settings(), most_rate=1e4), built)
    assert ramp.diverged
    assert len(ramp.losses) < 100
    assert ramp.steps_per_epoch == 32


def test_a_whole_run_tells_how_busy_the_device_was(built):
    trial = run_trial(RunTrial(device="cpu", settings=settings(num_epochs=1), evaluate_steps=8), built)
    assert [found.step for found in trial.evaluations] == [8, 16, 24, 32]
    assert 0 < trial.utilisation <= 1
    assert trial.stopped_because == "finished"


def test_a_run_that_its_time_limit_ends_is_evaluated_where_it_stands(built):
    trial = run_trial(RunTrial(device="cpu", settings=settings(num_epochs=10_000), max_seconds=0.2), built)
    long = {"device": "cpu", "settings": settings(num_epochs=10_000), "evaluate_steps": 1_000_000}
    cut = run_trial(RunTrial(**long, max_seconds=0.2), built)
    assert trial.stopped_because == cut.stopped_because == "budget"
    assert trial.evaluations[-1].step == trial.num_steps
    assert [seen.step for seen in cut.evaluations] == [cut.num_steps]
    assert cut.evaluations[0].loss > 0


def grow_beside_another(built, monkeypatch, *, runs_out):
    """A trunk grown while another is held, its training out of memory as often as that."""
    words = {"device": "cpu", "to_step": 12}
    grow_trunk(GrowTrunk(**words, settings=settings()), built)
    advance, left = Trunk.advance, [runs_out]

    def within_memory(trunk, num_steps):
        left[0] -= 1
        if left[0] >= 0:
            raise torch.OutOfMemoryError
        return advance(trunk, num_steps)

    monkeypatch.setattr(Trunk, "advance", within_memory)
    return grow_trunk(GrowTrunk(**words, settings=settings(learning_rate=0.05)), built)


def test_a_trunk_for_which_others_leave_no_memory_is_grown_alone(built, monkeypatch):
    grown = grow_beside_another(built, monkeypatch, runs_out=1)
    assert len(built.kept["trunks"]) == 1
    built.kept.clear()
    alone = grow_trunk(GrowTrunk(device="cpu", to_step=12, settings=settings(learning_rate=0.05)), built)
    assert grown.loss == alone.loss


def test_a_trunk_that_has_no_memory_alone_is_an_error(built, monkeypatch):
    with pytest.raises(torch.OutOfMemoryError):
        grow_beside_another(built, monkeypatch, runs_out=2)


def compare_rows(model, batch):
    """A loss that each sample shares with the others of its batch."""
    outputs = model(batch[0])
    return torch.nn.functional.cross_entropy(outputs @ outputs.T, torch.arange(len(outputs)))


def test_a_loss_that_compares_the_samples_of_a_batch_is_trained_whole(built, monkeypatch):
    built.__dict__["job"] = replace(built.job, loss=compare_rows)
    seen = grow_trunk(GrowTrunk(device="cpu", settings=settings(), to_step=20), built)
    built.kept.clear()
    monkeypatch.setattr(noise, "EVERY", 1000)
    unseen = grow_trunk(GrowTrunk(device="cpu", settings=settings(), to_step=20), built)
    assert not seen.small_squares
    assert seen.loss == unseen.loss
