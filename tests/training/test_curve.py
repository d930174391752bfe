"""The curve of a run: few points, evenly over all updates, that keep every loss; the same after a resume."""

from dataclasses import asdict, replace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from legroom.job import Job, Settings
from legroom.training.loop import Run
from legroom.training.progress import MAX_POINTS, Curve
from legroom.training.records import Train
from legroom.training.schedules import cosine

SETTINGS = Settings(batch_size=2, learning_rate=0.1, num_epochs=10, schedule="cosine")


def make_run(settings=SETTINGS, scheduler=None, interrupted=lambda: False, **more):
    inputs = torch.linspace(-1, 1, 200).reshape(-1, 1)
    data = TensorDataset(inputs, 2 * inputs)
    job = Job(
        model=lambda: nn.Linear(1, 1),
        train_data=lambda: data,
        loss=lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        scheduler=scheduler,
    )
    return Run(job, Train(device="cpu", settings=asdict(settings), **more), data, None, interrupted=interrupted)


@pytest.mark.parametrize("num_losses", [1, 399, 400, 401, 2_811, 100_000])
@pytest.mark.parametrize("at_once", [1, 7, 2_000])
def test_points_lie_evenly_and_keep_every_loss(num_losses, at_once):
    curve, losses = Curve(), [float(number) for number in range(num_losses)]
    for start in range(0, num_losses, at_once):
        part = losses[start : start + at_once]
        curve.extend(part, start + len(part), (start + len(part)) / 100, lambda step: 1 / step)
    assert min(num_losses, MAX_POINTS / 2) <= len(curve.step) < MAX_POINTS
    assert curve.step == [curve.stride * number for number in range(1, len(curve.step) + 1)]
    assert num_losses - curve.step[-1] < curve.stride
    assert curve.loss == pytest.approx([step - (curve.stride + 1) / 2 for step in curve.step])
    assert curve.seconds == pytest.approx([step / 100 for step in curve.step])
    assert curve.rate == pytest.approx([1 / step for step in curve.step])


def test_a_run_tells_its_losses_and_the_rate_of_its_schedule():
    curve = make_run().go().curve
    assert curve["step"] == list(range(4, 1001, 4))
    shape = cosine(1000, 1.0)
    assert curve["rate"] == pytest.approx([0.1 * shape(step - 1) for step in curve["step"]])
    assert curve["loss"][-1] < curve["loss"][0]
    assert curve["seconds"] == sorted(curve["seconds"])


def test_the_rates_of_a_jobs_own_scheduler_are_told_for_each_point():
    def halves(optimizer, length):
        return torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.5)

    curve = make_run(replace(SETTINGS, schedule="own", num_epochs=3), halves).go().curve
    assert curve["rate"] == pytest.approx([0.1 * 0.5 ** ((step - 1) // 100) for step in curve["step"]])


def test_a_resumed_run_has_the_curve_of_a_whole_one(tmp_path):
    calls = iter(range(10**6))
    make_run(interrupted=lambda: next(calls) > 650, folder=str(tmp_path)).go()
    resumed = make_run(folder=str(tmp_path), resume=True).go()
    assert 0 < resumed.resumed_from < 1000
    whole = make_run().go().curve
    assert {name: resumed.curve[name] for name in ("step", "loss", "rate")} == {
        name: whole[name] for name in ("step", "loss", "rate")
    }
