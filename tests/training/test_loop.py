"""The training loop: what ends it, what it remembers, and that a resumed run is the run it would have been."""

import json
import math
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from legroom.environments import EXPANDABLE, FIXED_SEGMENTS, UNCHANGED
from legroom.errors import JobRaised, LegroomError, UsageError
from legroom.job import Job, Score, Settings
from legroom.questions.memory.records import StepPeaks
from legroom.training import checkpoint
from legroom.training.loop import Run
from legroom.training.records import Train

SETTINGS = Settings(batch_size=8, learning_rate=0.1, num_epochs=3)


class Noisy(Dataset):
    """Lines with noise drawn from torch's own chance at every look, as augmentation does."""

    def __len__(self):
        return 50

    def __getitem__(self, index):
        x = torch.linspace(-1, 1, 4) * (index / 50) + 0.1 * torch.randn(4)
        return x, x.sum().reshape(1)


class Stream(IterableDataset):
    def __iter__(self):
        return (Noisy()[index] for index in torch.randperm(50).tolist())


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 1))


def mean_square(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def near(model, batch):
    return ((model(batch[0]) - batch[1]).abs() < 0.2).sum(), len(batch[0])


def make_job(**more):
    fields = {
        "model": net,
        "train_data": Noisy,
        "valid_data": lambda: TensorDataset(torch.ones(20, 4) / 4, torch.ones(20, 1)),
        "loss": mean_square,
        "optimizer": lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
        "score": Score(near),
        "baseline": SETTINGS,
    }
    return Job(**(fields | more))


def make_run(job=None, settings=SETTINGS, interrupted=lambda: False, **more):
    job = job or make_job()
    request = Train(device="cpu", settings=asdict(settings), **more)
    valid = job.valid_data() if job.valid_data else None
    return Run(job, request, job.train_data(), valid, interrupted=interrupted)


def losses_of(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [value for line in lines for value in line.get("losses", [])]


class After:
    """True from the given call on: an interrupt between two updates."""

    def __init__(self, number):
        self.number = number

    def __call__(self):
        self.number -= 1
        return self.number <= 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("data", [Noisy, Stream], ids=["indexed", "streamed"])
@pytest.mark.parametrize("calls", [3, 9, 14, 20])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path, data, calls, precision):
    job = make_job(train_data=data, num_samples=50)
    settings = replace(SETTINGS, schedule="cosine", warmup_steps=4, precision=precision)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected = make_run(job, settings, folder=str(whole)).go()
    first = make_run(job, settings, After(calls), folder=str(broken)).go()
    assert first.stopped_because == "interrupted"
    assert 0 < first.num_steps < expected.num_steps
    second = make_run(job, settings, folder=str(broken), resume=True).go()
    assert second.resumed_from == first.num_steps
    assert losses_of(broken) == losses_of(whole)
    assert [found.loss for found in second.evaluations] == [found.loss for found in expected.evaluations]
    ours, theirs = (torch.load(folder / "checkpoint.pt", weights_only=True)["model"] for folder in (broken, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_killed_between_checkpoints_goes_on_from_the_last_one(tmp_path):
    (tmp_path / "whole").mkdir()
    make_run(folder=str(tmp_path / "whole")).go()
    killed = make_run(folder=str(tmp_path), checkpoint_steps=5)
    killed.files.keep_best = lambda best: 1 / 0  # dies in the first evaluation, after update 6
    with pytest.raises(ZeroDivisionError):
        killed.go()
    result = make_run(folder=str(tmp_path), resume=True).go()
    assert result.resumed_from == 5
    assert losses_of(tmp_path) == losses_of(tmp_path / "whole")


class Dies(BaseException):
    """As a kill: nothing is saved."""


@pytest.mark.parametrize("calls", [7, 9, 18])
def test_a_run_killed_amid_an_epoch_goes_on_from_the_end_of_the_one_before(tmp_path, calls):
    num_calls = 0

    def dying(model, batch):
        nonlocal num_calls
        num_calls += model.training
        if num_calls == calls:
            raise Dies
        return mean_square(model, batch)

    (tmp_path / "whole").mkdir()
    expected = make_run(make_job(train_data=Stream), folder=str(tmp_path / "whole")).go()
    with pytest.raises(Dies):
        make_run(make_job(train_data=Stream, loss=dying), folder=str(tmp_path)).go()
    again = make_run(make_job(train_data=Stream), folder=str(tmp_path), resume=True).go()
    assert again.resumed_from == (calls - 1) // 6 * 6
    assert losses_of(tmp_path) == losses_of(tmp_path / "whole")
    assert again.evaluations[-1].loss == expected.evaluations[-1].loss


def test_a_finished_run_resumed_trains_no_further(tmp_path):
    first = make_run(folder=str(tmp_path)).go()
    again = make_run(folder=str(tmp_path), resume=True).go()
    assert (again.num_steps, again.stopped_because) == (first.num_steps, "finished")


def test_another_seed_gives_another_run(tmp_path):
    curves = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        make_run(settings=replace(SETTINGS, seed=seed), folder=str(folder)).go()
        curves.append(losses_of(folder))
    assert curves[0] != curves[1]


def test_epochs_make_the_length_and_a_short_last_batch_is_left_out():
    result = make_run().go()
    assert (result.num_steps, result.num_epochs, result.stopped_because) == (3 * (50 // 8), 3.0, "finished")
    assert [found.step for found in result.evaluations] == [6, 12, 18]


def test_accumulation_joins_batches_and_keeps_the_rest_of_an_epoch():
    result = make_run(settings=replace(SETTINGS, accumulation_steps=4)).go()
    assert result.num_steps == 3 * 2
    assert result.num_samples == 3 * 6 * 8


def test_steps_end_the_run_within_an_epoch_with_an_evaluation():
    result = make_run(num_steps=8).go()
    assert (result.num_steps, result.stopped_because) == (8, "finished")
    assert [found.step for found in result.evaluations] == [6, 8]


def test_evaluations_come_every_so_many_updates():
    assert [found.step for found in make_run(evaluate_steps=7).go().evaluations] == [7, 14, 18]


def test_a_target_ends_the_run():
    assert make_run(target=("loss", 1e9)).go().stopped_because == "target"
    assert make_run(target=("score", 1.1)).go().stopped_because == "finished"


def test_patience_ends_a_run_that_gains_nothing():
    result = make_run(settings=replace(SETTINGS, learning_rate=1e-12, num_epochs=9), patience=2, tolerance=0.5).go()
    assert (result.stopped_because, len(result.evaluations)) == ("patience", 3)


def test_seconds_are_a_budget():
    job, now = make_job(), iter(range(10_000))
    request = Train(device="cpu", settings=asdict(replace(SETTINGS, num_epochs=1_000)), max_seconds=50.0)
    result = Run(job, request, job.train_data(), job.valid_data(), clock=lambda: float(next(now))).go()
    assert result.stopped_because == "budget"
    assert result.seconds < 200


def test_a_loss_that_is_no_number_ends_the_run_at_its_update(tmp_path):
    seen = []

    def exploding(model, batch):
        seen.append(1)
        return mean_square(model, batch) * (math.inf if len(seen) == 10 else 1.0)

    settings = replace(SETTINGS, schedule="linear")
    result = make_run(make_job(loss=exploding, valid_data=None, score=None), settings, folder=str(tmp_path)).go()
    assert (result.stopped_because, result.num_steps, result.checkpoint_step) == ("diverged", 10, 6)
    assert result.learning_rate == pytest.approx(0.1 * (1 - 9 / 18))
    assert checkpoint.load(tmp_path / "checkpoint.pt", {})["progress"]["step"] == 6


def test_schedules_multiply_the_rate_of_each_group():
    def grouped(model, rate):
        first, second = model[0], model[3]
        groups = [{"params": first.parameters(), "lr": rate}, {"params": second.parameters(), "lr": 10 * rate}]
        return torch.optim.SGD(groups, rate)

    run = make_run(make_job(optimizer=grouped), replace(SETTINGS, schedule="linear"))
    run.go()
    assert [group["lr"] for group in run.optimizer.param_groups] == pytest.approx([0.1 / 18, 1.0 / 18])


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    make_run(folder=str(tmp_path), identity={"job": "a", "settings": {"batch_size": 8}}).go()
    with pytest.raises(UsageError, match="its job: a, not b"):
        make_run(folder=str(tmp_path), resume=True, identity={"job": "b"}).go()
    with pytest.raises(UsageError, match="batch_size 8, not 16"):
        make_run(folder=str(tmp_path), resume=True, identity={"settings": {"batch_size": 16}}).go()


def test_a_checkpoint_of_another_version_or_none_at_all_is_refused(tmp_path):
    torch.save({"format": 99}, tmp_path / "checkpoint.pt")
    with pytest.raises(UsageError, match="has format 99"):
        make_run(folder=str(tmp_path), resume=True).go()
    (tmp_path / "checkpoint.pt").write_bytes(b"no checkpoint")
    with pytest.raises(UsageError, match="cannot be read"):
        make_run(folder=str(tmp_path), resume=True).go()


class Runs:
    def __reduce__(self):
        return print, ("code ran",)


def test_code_in_a_checkpoint_is_not_run(tmp_path, capsys):
    torch.save({"format": 1, "payload": Runs()}, tmp_path / "checkpoint.pt")
    with pytest.raises(UsageError):
        make_run(folder=str(tmp_path), resume=True).go()
    assert "code ran" not in capsys.readouterr().out


def test_the_best_weights_are_kept(tmp_path):
    result = make_run(make_job(score=None), folder=str(tmp_path)).go()
    best = torch.load(tmp_path / "best.pt", weights_only=True)
    assert best["loss"] == min(found.loss for found in result.evaluations)
    net().load_state_dict(best["model"])


@pytest.mark.parametrize(
    ("change", "request_", "words"),
    [
        ({"valid_data": None}, {"target": ("loss", 0.1)}, "needs validation data"),
        ({"score": None}, {"target": ("score", 0.9)}, "has no score"),
        ({}, {"settings": replace(SETTINGS, batch_size=64)}, "fewer than one batch of 64"),
        ({"train_data": Stream}, {"settings": replace(SETTINGS, schedule="cosine")}, "length of an epoch is unknown"),
    ],
)
def test_what_cannot_be_run_is_refused(change, request_, words):
    with pytest.raises(UsageError, match=words):
        make_run(make_job(**change), **request_)


def test_an_unknown_length_is_run_by_epochs():
    result = make_run(make_job(train_data=Stream)).go()
    assert (result.num_steps, result.stopped_because) == (18, "finished")


def test_losses_are_read_seldom(monkeypatch):
    run, looks = make_run(settings=replace(SETTINGS, num_epochs=20)), []
    look = run._look
    monkeypatch.setattr(run, "_look", lambda: looks.append(1) or look())
    run.go()
    assert len(looks) <= 25  # 120 updates: one look an epoch, and a few for the seconds that pass


def test_fused_and_channels_last_and_compiled_losses_train_the_same(tmp_path):
    plain = make_run(make_job(valid_data=None, score=None)).go()
    settings = replace(SETTINGS, fused=True, channels_last=True)
    fused = make_run(make_job(valid_data=None, score=None), settings=settings).go()
    assert fused.last_loss == pytest.approx(plain.last_loss, rel=1e-4)


def test_tensorboard_gets_the_scalars(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    make_run(folder=str(tmp_path), tensorboard=True).go()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"loss", "rate", "valid_loss", "valid_score"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("valid_loss")] == [6, 12, 18]


def test_a_run_takes_the_allocator_that_memory_was_proved_with():
    plain = Train(device="cuda", settings=asdict(SETTINGS))
    proof = StepPeaks(device="cuda", batch_size=8, proof=True)
    assert plain.environment == UNCHANGED
    assert replace(plain, allocator="expandable").environment == proof.environment == EXPANDABLE
    fixed = replace(plain, allocator="default").environment
    assert fixed == replace(proof, allocator="default").environment == FIXED_SEGMENTS


def test_what_chance_scores_is_told_with_the_run():
    job = make_job(score=Score(near, chance=0.25))
    request = Train(device="cpu", settings=asdict(replace(SETTINGS, num_epochs=1)))
    assert Run(job, request, job.train_data(), job.valid_data()).go().chance == 0.25


# --- a job's own scheduler -------------------------------------------------------------------------------------------


def halve(optimizer, length):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)


def halve_each_epoch(optimizer, length):
    assert (length.num_steps, length.num_epochs, length.steps_per_epoch) == (18, 3, 6)
    return {"scheduler": halve(optimizer, length), "interval": "epoch"}


@pytest.mark.parametrize(("scheduler", "last"), [(halve, 0.1 * 0.5**17), (halve_each_epoch, 0.1 * 0.5**2)])
def test_a_jobs_own_scheduler_moves_the_rate_by_update_or_epoch(scheduler, last):
    job = make_job(scheduler=scheduler)
    assert job.baseline.schedule == "own"
    assert make_run(job, job.baseline).go().learning_rate == pytest.approx(last)
    named = make_run(job, replace(job.baseline, schedule="constant")).go()
    assert named.learning_rate == 0.1
    assert any("own scheduler did not" in note for note in named.notes)


@pytest.mark.parametrize("calls", [3, 9, 14])
def test_a_resumed_run_with_its_own_scheduler_equals_an_uninterrupted_one(tmp_path, calls):
    job = make_job(scheduler=halve_each_epoch)
    (tmp_path / "whole").mkdir()
    expected = make_run(job, job.baseline, folder=str(tmp_path / "whole")).go()
    make_run(job, job.baseline, After(calls), folder=str(tmp_path)).go()
    again = make_run(job, job.baseline, folder=str(tmp_path), resume=True).go()
    assert losses_of(tmp_path) == losses_of(tmp_path / "whole")
    assert again.learning_rate == expected.learning_rate


class Odd(torch.optim.lr_scheduler.StepLR):
    def state_dict(self):
        return {**super().state_dict(), "job": Job}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda optimizer, length: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), "waits for a metric"),
        (lambda optimizer, length: 0.1, "returned a float; legroom needs a torch scheduler"),
        (lambda optimizer, length: {"scheduler": halve(optimizer, length), "interval": "batch"}, "interval 'batch'"),
        (lambda optimizer, length: Odd(optimizer, 1), "cannot be kept in a checkpoint"),
    ],
)
def test_a_scheduler_that_cannot_be_followed_is_refused(made, message):
    job = make_job(scheduler=made)
    with pytest.raises(LegroomError, match=message):
        make_run(job, job.baseline)


def test_two_schedules_or_none_are_refused():
    with pytest.raises(JobRaised, match=r"has a scheduler, and its baseline names the schedule 'cosine'"):
        make_job(scheduler=halve, baseline=replace(SETTINGS, schedule="cosine"))
    with pytest.raises(JobRaised, match="give scheduler="):
        make_job(baseline=replace(SETTINGS, schedule="own"))
    with pytest.raises(UsageError, match="the job has no scheduler"):
        make_run(settings=replace(SETTINGS, schedule="own"))
    job = make_job(scheduler=halve)
    with pytest.raises(UsageError, match="makes its own warm-up"):
        make_run(job, replace(job.baseline, warmup_steps=3))
