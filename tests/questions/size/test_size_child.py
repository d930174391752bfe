"""What a child does for `legroom size`: builds the sizes, scales their rates, trains until the loss has settled."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from legroom import api
from legroom.child.built_job import BuiltJob
from legroom.clock import monotonic
from legroom.errors import UsageError
from legroom.job import Score
from legroom.job_address import address_of
from legroom.questions.size.child.rates import scale_rates, shapes_of
from legroom.questions.size.child.share import share_of
from legroom.questions.size.child.sizes import count_sizes
from legroom.questions.size.child.trial import Trial, sized, take_peak, train_size
from legroom.questions.size.curve import Curve
from legroom.questions.size.records import CountSizes, TrainSize
from legroom.training.branches import Trunk
from legroom.training.data.part import part_of
from legroom.workloads.text.running_text import Words

RESIZABLE = f"{Path(__file__).parents[2] / 'jobs' / 'resizable.py'}:job"


@pytest.fixture
def built():
    return BuiltJob(address_of(RESIZABLE, None))


def trial(built, **more):
    settings = asdict(built.job.baseline)
    words = {"settings": settings, "vary": "width", "value": 8, "fraction": 0.25, "base_value": 24}
    return TrainSize(device="cpu", **{**words, **more})


def test_the_jobs_own_value_is_found_by_its_parameters(built):
    found = count_sizes(CountSizes(vary="width", values=[8, 24]), built)
    assert (found.own, found.num_parameters) == (24, [81, 241])
    assert found.names == ["depth", "width"]
    assert count_sizes(CountSizes(vary="depth"), built).own == 1


def test_usual_values_that_the_job_refuses_are_left_out_and_a_width_that_is_not_used_is_found_at_one(built):
    sized_by, own = built.job.resize["width"], built.job.model

    def even(width):
        if width % 2:
            raise ValueError("an even width is needed")
        return sized_by(width)

    built.__dict__["job"] = replace(built.job, resize={"width": even, "depth": lambda depth: own})
    found = count_sizes(CountSizes(vary="width", values=[8, 9, 24], skips=True), built)
    assert (found.num_parameters, found.refused) == ([81, 241], [9])
    with pytest.raises(ValueError, match="an even width is needed"):
        count_sizes(CountSizes(vary="width", values=[8, 9]), built)
    unused = count_sizes(CountSizes(vary="depth", values=[1, 2]), built)
    assert (unused.own, unused.num_parameters) == (1, [241, 241])


def test_what_the_job_raises_where_no_size_can_be_made_is_told(built, tmp_path):
    def never(width):
        raise ValueError("mat1 and mat2 cannot be multiplied")

    built.__dict__["job"] = replace(built.job, resize={"width": never})
    found = count_sizes(CountSizes(vary="width", values=[8], skips=True), built)
    assert (found.own, found.refused) == (None, [8])
    assert found.why == "at 1 it raised ValueError: mat1 and mat2 cannot be multiplied"
    bad = tmp_path / "bad.py"
    bad.write_text(
        f"from dataclasses import replace\nimport runpy\n"
        f"whole = runpy.run_path({RESIZABLE.removesuffix(':job')!r})['job']\n"
        "def never(width):\n    raise ValueError('no such width')\n"
        "def job():\n    return replace(whole(), resize={'width': never, 'depth': never})\n"
    )
    for vary in ("width", "depth"):
        with pytest.raises(UsageError, match=rf"it raised ValueError: no such width. Name --{vary}s"):
            api.size(f"{bad}:job", vary=vary, run=api.Run(out=tmp_path / vary))


def test_a_trial_trains_the_size_on_its_share_until_the_loss_has_settled(built):
    found = train_size(trial(built, cools=True), built)
    assert (found.outcome, found.num_parameters, found.num_samples) == ("settled", 81, 128)
    assert found.steps == sorted(found.steps)
    assert len(found.losses) == len(found.steps)
    assert found.cooled_steps
    assert found.step_seconds > 0
    assert found.peak_bytes > 0


def test_a_trial_whose_time_is_over_says_that_it_has_not_settled(built):
    assert train_size(trial(built, max_seconds=0.0), built).outcome == "unsettled"


def test_evaluations_and_cooled_copies_leave_the_trial_as_it_would_have_gone(built):
    plain, cooled = (train_size(trial(built, cools=cools), built) for cools in (False, True))
    assert plain.losses == cooled.losses


def test_memory_is_read_before_the_first_copy_cools_down(built, monkeypatch):
    copied = []
    branch = Trunk.branch

    class Planted:
        reserved = staticmethod(dict)
        take_peak = staticmethod(lambda: 900 if copied else 100)

    monkeypatch.setattr(Trunk, "branch", lambda *given, **words: copied.append(1) or branch(*given, **words))
    monkeypatch.setattr("legroom.questions.size.child.trial.open_meter", lambda device, cap: Planted())
    found = train_size(trial(built, cools=True), built)
    assert copied
    assert found.peak_bytes == 100


def test_on_a_gpu_memory_is_what_torch_took_from_the_card():
    class Planted:
        take_peak = staticmethod(lambda: 70)
        reserved = staticmethod(lambda: {"reserved": 100})

    assert take_peak(Planted()) == 100


@pytest.mark.parametrize(("solver", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)])
def test_optimizers_that_are_compared_train_the_jobs_model(built, solver, kind):
    request = trial(built, solver=solver, max_seconds=0.0)
    assert train_size(request, built).losses
    made = sized(built.job, request)
    assert type(made.optimizer(made.model(), 0.1)) is kind


@pytest.mark.parametrize(("chance", "left"), [(9.0, True), (0.0, False), (None, None)])
def test_a_trial_settles_by_standing_still_only_where_it_scores_better_than_nothing_learned(
    built, monkeypatch, chance, left
):
    asked = []
    settles = Curve.has_settled
    monkeypatch.setattr(Curve, "has_settled", lambda self, *least, **may: asked.append(may) or settles(self, *least))
    score = Score(lambda model, batch: (built.job.loss(model, batch) * 32, 32), goal="min", chance=chance)
    built.__dict__["job"] = replace(built.job, score=score)
    assert train_size(trial(built), built).left_chance is left
    assert asked[-1] == {"may_stand": left is not False}


def test_mup_leaves_the_jobs_own_size_alone_and_scales_hidden_rates_of_adam_by_one_over_the_width(built):
    rates = {}
    for value in (24, 48):
        job = sized(built.job, trial(built, value=value, vary="width", rate_rule="mup"))
        model = job.model()
        optimizer = job.optimizer(model, 0.05)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        rates[value] = {names[id(each)]: group["lr"] for group in optimizer.param_groups for each in group["params"]}
    assert set(rates[24].values()) == {0.05}
    assert rates[48] == {"0.weight": 0.05, "0.bias": 0.05, "2.weight": 0.025, "2.bias": 0.05}


def test_mup_of_sgd_raises_input_and_vectors_and_lowers_the_output():
    def make(width):
        return nn.Sequential(nn.Embedding(50, width), nn.Linear(width, width), nn.Linear(width, 50))

    model = make(64)
    optimizer = scale_rates(torch.optim.SGD(model.parameters(), 1.0), model, shapes_of(make(16)))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {names[id(each)]: group["lr"] for group in optimizer.param_groups for each in group["params"]}
    assert rates == {
        "0.weight": 4.0, "1.weight": 1.0, "1.bias": 4.0, "2.weight": 0.25, "2.bias": 1.0,
    }  # fmt: skip


def test_a_part_of_a_text_is_its_beginning_and_of_samples_the_same_each_time():
    assert part_of(Words(torch.arange(100)), 0.25, own_loader=True).words.tolist() == list(range(25))
    rows = list(range(40))
    assert list(part_of(rows, 0.5, own_loader=False)) == list(part_of(rows, 0.5, own_loader=False))
    assert len(part_of(rows, 0.5, own_loader=False)) == 20
    with pytest.raises(UsageError, match=r"Give the data set a method part\(fraction\)"):
        part_of(rows, 0.5, own_loader=True)


def test_each_seed_has_other_samples_and_every_size_the_same_and_of_a_text_its_beginning():
    rows, text = list(range(40)), Words(torch.arange(100))
    shares = [sorted(share_of(rows, 0.5, seed, own_loader=False)) for seed in (0, 0, 1)]
    assert shares[0] == shares[1] != shares[2]
    assert {len({*share}) for share in shares} == {20}
    assert share_of(text, 0.25, 1, own_loader=True).words.tolist() == list(range(25))
    assert share_of(rows, 1.0, 1, own_loader=False) is rows


def test_a_trial_draws_its_samples_by_its_seed(built, monkeypatch):
    asked = []
    share = "legroom.questions.size.child.trial.share_of"
    monkeypatch.setattr(
        share, lambda data, part, seed, **words: asked.append(seed) or share_of(data, part, seed, **words)
    )
    train_size(trial(built, settings={**asdict(built.job.baseline), "seed": 5}, max_seconds=0.0), built)
    assert asked == [5]


def test_a_real_job_is_asked_from_end_to_end(tmp_path):
    answer = api.size(
        RESIZABLE, widths=[8, 16, 24], fractions=[0.25, 0.5], seeds=1, budget=120.0, run=api.Run(out=tmp_path)
    )
    assert answer.own_value == 24
    assert answer.recommended_width in (8, 16, 24)
    assert (tmp_path / "report.html").is_file()


class Stands:
    """A trunk whose loss falls for 200 updates and stands still from then on."""

    trainer = SimpleNamespace(job=SimpleNamespace(score=None), feed=SimpleNamespace(steps_per_epoch=1))

    def __init__(self):
        self.at, self.left_at = 0, []

    def advance(self, num_steps):
        self.at += num_steps
        return [1.0] * num_steps

    def evaluate(self):
        return SimpleNamespace(loss=1 + abs(math.log(min(self.at, 200) / 200)) + 1e-4 * self.at / 200, score=None)

    def branch(self, **words):
        self.left_at.append(self.at)
        return [self.evaluate()]


class OnlyRises(Stands):
    """A trunk that overfits from its first update on."""

    def evaluate(self):
        return SimpleNamespace(loss=1.6 + self.at / 500, score=None)


def test_a_trial_that_overfits_at_once_ends_as_that_and_not_with_its_time(built):
    trunk = OnlyRises()
    trial_of = Trial(trunk, trial(built), monotonic(), SimpleNamespace(take_peak=lambda: 1, reserved=dict))
    assert trial_of.run() == "only_rose"
    assert trunk.at < 200


def test_copies_cool_down_up_to_the_minimum_and_not_while_the_trial_waits_to_be_sure_of_it(built, monkeypatch):
    monkeypatch.setattr("legroom.questions.size.child.trial.COOLED_EVERY", 1)
    trunk = Stands()
    waits = Trial(trunk, trial(built, cools=True), monotonic(), SimpleNamespace(take_peak=lambda: 1, reserved=dict))
    assert waits.run() == "settled"
    lowest = waits.curve.lowest_step
    assert trunk.at > 2.5 * lowest
    assert 1.4 * lowest < max(trunk.left_at) <= 1.65 * lowest
