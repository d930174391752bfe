"""A run until its target: cools down where that reaches it, and is the run it would have been, killed or not."""

import json
import math
import random
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from legroom.errors import UsageError
from legroom.job import Job, Score, Settings
from legroom.training.cooldowns import Outlook, error_of, whole_length
from legroom.training.loop import Run
from legroom.training.records import Train

SETTINGS = Settings(batch_size=8, learning_rate=0.05, num_epochs=60, schedule="stable", warmup_steps=4, seed=1)
TARGET = ("loss", 0.01)


ROWS = torch.randn(104, 6, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 1, 0.7, 0.5, 0.4, 0.3])


class Noisy(Dataset):
    """A plane under noise that torch draws anew at every look: only a falling rate gets below what the noise allows."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return ROWS[index], ROWS[index].sum().reshape(1) + torch.randn(1)


def held_out():
    return TensorDataset(ROWS[64:], ROWS[64:].sum(1, keepdim=True))


def make_job(**more):
    fields = {
        "model": lambda: nn.Sequential(nn.Dropout(0.02), nn.Linear(6, 1)),
        "train_data": Noisy,
        "valid_data": held_out,
        "loss": lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1]),
        "optimizer": lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.5),
        "score": Score(lambda model, batch: (-(model(batch[0]) - batch[1]).square().sum(), len(batch[0]))),
    }
    return Job(**(fields | more))


def run(job=None, settings=SETTINGS, interrupted=lambda: False, **more):
    job = job or make_job()
    words = {"target": TARGET, "until_target": True} | more
    request = Train(device="cpu", settings=asdict(settings), **words)
    return Run(job, request, job.train_data(), job.valid_data(), interrupted=interrupted)


class At:
    """True from the given call on: an interrupt between two updates."""

    def __init__(self, number):
        self.number = number

    def __call__(self):
        self.number -= 1
        return self.number <= 0


def weights(one):
    return [parameter.tolist() for parameter in one.model.parameters()]


def known(result):
    """What does not depend on the clock."""
    cooldowns = [replace(each, seconds=0.0) for each in result.cooldowns]
    return [(found.step, found.loss, found.train_loss) for found in result.evaluations], cooldowns, result.num_steps


def test_it_ends_with_a_cooldown_that_reached_the_target_after_others_missed():
    one = run()
    result = one.go()
    *missed, last = result.cooldowns
    assert result.stopped_because == "target"
    assert missed
    assert [each.reached for each in result.cooldowns] == [False] * len(missed) + [True]
    assert all(each.loss > TARGET[1] for each in missed)
    assert last.loss <= TARGET[1]
    assert result.num_steps == last.step + last.num_steps
    assert result.num_samples == 8 * result.num_steps
    assert result.learning_rate < 0.05


def test_the_cooldown_that_reached_it_gives_what_a_fixed_schedule_of_that_length_gives_bit_for_bit():
    one = run()
    last = one.go().cooldowns[-1]
    length = whole_length(last.step, 0.2)
    fixed = run(until_target=False, target=None, num_steps=length, settings=SETTINGS)
    for _ in range(last.step + last.num_steps):
        if fixed.trainer.next_update() is None:
            fixed.trainer.end_epoch()
            fixed.trainer.next_update()
    assert weights(one) == weights(fixed)


def test_killed_anywhere_and_resumed_it_is_the_run_it_would_have_been(tmp_path):
    whole = run()
    expected = whole.go()
    folder = str(tmp_path)
    for number in (3, 17, 18, 40, 60, 90):
        stopped = run(folder=folder, resume=True, interrupted=At(number)).go()
        assert stopped.stopped_because == "interrupted"
    again = run(folder=folder, resume=True)
    result = again.go()
    assert known(result) == known(expected)
    assert weights(again) == weights(whole)


def test_killed_amid_a_cooldown_it_goes_on_with_that_cooldown(tmp_path):
    class Counted:
        def __init__(self):
            self.run = None

        def __call__(self):
            course = self.run.course
            return course.trunk is not None and len(course.cooldowns) == 3 and self.run.trainer.at.step > 135

    watch = Counted()
    one = run(folder=str(tmp_path), interrupted=watch)
    watch.run = one
    assert one.go().stopped_because == "interrupted"
    content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert content["course"]["trunk"]["progress"]["step"] < content["progress"]["step"]
    resumed = run(folder=str(tmp_path), resume=True).go()
    assert resumed.resumed_from == content["progress"]["step"]
    assert known(resumed) == known(run().go())


def test_lines_of_metrics_say_which_cooldown_they_are_of(tmp_path):
    result = run(folder=str(tmp_path)).go()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {line.get("cooldown") for line in lines} == {None, *range(1, 1 + len(result.cooldowns))}


def test_a_run_that_has_ended_is_not_trained_further(tmp_path):
    first = run(folder=str(tmp_path)).go()
    again = run(folder=str(tmp_path), resume=True).go()
    assert again.resumed_from == again.num_steps == first.num_steps
    assert known(again) == known(first)


def test_a_target_that_the_untrained_model_meets_trains_nothing():
    result = run(target=("loss", 1e6)).go()
    assert (result.stopped_because, result.num_steps, result.cooldowns) == ("target", 0, [])


def test_never_reached_it_ends_with_the_cooldown_of_its_own_schedule():
    result = run(target=("loss", 1e-9), num_steps=300).go()
    assert (result.stopped_because, result.num_steps) == ("finished", 300)
    assert result.learning_rate < 0.1 * SETTINGS.learning_rate
    assert result.cooldowns
    assert not any(each.reached for each in result.cooldowns)


def test_a_job_that_hides_its_optimizer_is_refused():
    class Hidden:
        def step(self): ...
        def zero_grad(self, set_to_none=True): ...

    settings = replace(SETTINGS, schedule="constant", warmup_steps=0)
    with pytest.raises(UsageError, match="keeps its optimizers to itself"):
        run(make_job(optimizer=lambda model, rate: Hidden()), settings)


def simulate(seed):
    """Updates of a planted run, with its cooldowns, over those of the shortest that reaches the target."""
    rng = random.Random(seed)
    slope, start, kept = rng.uniform(0.4, 1.2), rng.uniform(20, 200), rng.uniform(0.4, 0.9)

    def trunk(step):
        return min(0.9, 1.5 / (1 + step / start) ** slope)

    def seen(error):
        return 1 - error * math.exp(rng.gauss(0, 0.05))

    shortest = rng.randint(150, 4000)
    target = 1 - kept * trunk(shortest)
    outlook = Outlook(target=error_of(target, goal="max", target=target))
    step = 8
    while step < 40 * shortest:
        outlook.trunk.append((step, error_of(seen(trunk(step)), goal="max", target=target)))
        if outlook.is_worth(step):
            score, length = seen(kept * trunk(step)), whole_length(step, 0.1)
            if score >= target:
                return (length + outlook.num_wasted) / whole_length(shortest, 0.2)
            outlook.cooled.append((step, error_of(score, goal="max", target=target)))
            outlook.num_wasted += length - step
        step += max(1, math.ceil(0.05 * step))
    return math.inf


def test_on_planted_runs_cooldowns_that_missed_included_it_is_near_the_shortest():
    ratios = sorted(simulate(seed) for seed in range(100))
    assert ratios[50] < 1.25, ratios[50]
    assert ratios[90] < 1.6, ratios[90]
