"""What other seeds say of a rate that won on one."""

import math
from dataclasses import replace

import pytest

from legroom import api
from legroom.job import Settings
from legroom.questions.rate.critical import critical_batch
from legroom.questions.rate.evidence import Branch, Evidence, Point, Trunk, steps_by_seed
from legroom.questions.rate.fake import FakeLearner, FakeLearning
from legroom.questions.rate.growing import warmup_steps
from legroom.questions.rate.ranking import winner
from legroom.questions.rate.records import BranchBatch, Grown, RateQuestion
from legroom.testing import FakeMachine, plant_host

SETTINGS = {"batch_size": 32, "accumulation_steps": 1, "learning_rate": 0.1, "seed": 0, "warmup_steps": 0}
QUESTION = RateQuestion(
    device="cpu", settings=SETTINGS, target_name="score", target=0.9889, goal="max", optimizer="sgd", num_seeds=3
)
PLANTED = {"s_min": 120, "b_crit": 100, "best_rate": 0.1, "noise": 0.01, "diverges_above": 1.0, "rate_exponent": 1.0}


def ask(learner, out):
    machine = FakeMachine(FakeLearning(learner), baseline=Settings(batch_size=64, learning_rate=0.02, num_epochs=8))
    run = api.Run(out=out, engine=machine, host=plant_host(), clock=machine.clock)
    return api.rate("digits", device="cpu", run=run, target="loss=0.12", budget=60.0)


def seeds_of(answer):
    return {curve["seed"] for curve in answer.curves if curve["learning_rate"] == answer.learning_rate}


def trunk(rate, seed, *points):
    """One with runs of so many updates, their losses and scores."""
    found = [
        Point(to_step=steps, num_steps=steps, num_samples=32 * steps, value=-score, loss=loss, score=score)
        for steps, loss, score in points
    ]
    return Trunk(learning_rate=rate, batch_size=32, seed=seed, points=found)


class DivergesOnOneSeed(FakeLearner):
    def step(self, *, rate, batch_size):
        super().step(rate=rate, batch_size=batch_size)
        self.num_doublings += self.seed == 1


def test_a_seed_on_which_the_rate_diverged_counts_as_missed_and_is_told(tmp_path):
    answer = ask(DivergesOnOneSeed(**PLANTED), tmp_path)
    assert answer.reached
    assert answer.seeds_there == (2, 3)
    assert answer.steps_range[1] is None
    assert any("diverged on 1 of 3 seeds" in note for note in answer.notes)
    assert not any("budget lasted" in note for note in answer.notes)


def test_updates_of_a_seed_that_diverged_before_its_first_look_are_infinite():
    best = trunk(0.1, 0, (100, 0.1, 0.99))
    diverged = Trunk(learning_rate=0.1, batch_size=32, seed=1, diverged_at=30)
    assert steps_by_seed([best, diverged], best, -0.98) == [100, math.inf]


class NeverThereOnOthers(FakeLearner):
    def evaluate(self):
        return super().evaluate() if self.seed == 0 else max(0.15, super().evaluate())


def test_a_target_that_one_seed_met_is_told_as_that(tmp_path):
    answer = ask(NeverThereOnOthers(**PLANTED), tmp_path)
    assert not answer.reached
    assert answer.seeds_there[0] == 1
    assert "no rate reached loss 0.12 with most seeds; " in answer.recommendations[0].because
    assert "did with 1 of" in answer.recommendations[0].because


class SlowOnOthers(FakeLearner):
    """One that other seeds learn slowly at the best rate of the first."""

    def _gain(self, share):
        return super()._gain(share) * (0.35 if self.seed and share > 0.9 else 1.0)


def test_a_rate_that_wins_by_what_other_seeds_show_of_another_is_confirmed_itself(tmp_path):
    answer = ask(SlowOnOthers(**PLANTED), tmp_path)
    assert answer.reached
    assert answer.learning_rate < 0.9 * SlowOnOthers(**PLANTED).best_rate_at(64)
    assert seeds_of(answer) == {0, 1, 2}


SURE = [trunk(0.2, 0, (101, 0.05, 0.98), (152, 0.045, 0.989))]
CALM = trunk(0.065, 0, (101, 0.06, 0.98), (152, 0.044, 0.989))


def test_a_rate_whose_other_seeds_settled_short_of_the_target_gives_way_to_the_next():
    """As seen of a job judged by 360 samples: trained to the end, sure of what it gets wrong."""
    stuck = [trunk(0.2, seed, (101, 0.044, 0.983), (152, 0.0438, 0.986)) for seed in (1, 2)]
    assert winner([*SURE, CALM], QUESTION, stuck) is CALM


def test_one_whose_other_seeds_still_learn_is_grown_on():
    learning = [trunk(0.2, seed, (101, 0.06, 0.983), (152, 0.04, 0.986)) for seed in (1, 2)]
    assert winner([*SURE, CALM], QUESTION, learning) is SURE[0]


def branch(rate, size, loss):
    request = BranchBatch(
        device="cpu",
        settings={**SETTINGS, "learning_rate": rate},
        from_step=100,
        batch_size=size,
        learning_rate=rate * size / 32,
        num_steps=50 * 32 // size,
        cooldown_steps=25 * 32 // size,
    )
    return Branch(request=request, result=Grown(loss=loss, num_samples=150 * 32), value=loss)


def test_branches_of_a_former_winner_are_read_with_its_own_curve():
    former = trunk(0.1, 0, (100, 1.0, 0.9), (150, 0.8, 0.9), (225, 0.6, 0.9))
    steep = trunk(0.03, 0, (100, 3.0, 0.9), (150, 2.0, 0.9), (225, 1.0, 0.9))
    evidence = Evidence(
        ramps=[],
        trunks=[former, steep],
        branches=[branch(0.1, 32, 0.8), branch(0.1, 128, 0.85)],
        failed=[],
        start=None,
        num_samples=0,
        step_seconds=0.0,
        update_seconds=None,
    )
    assert critical_batch(evidence, steep).value == critical_batch(evidence, former).value


@pytest.mark.parametrize(("own_steps", "warmup"), [(30, 3), (250, 5), (1_000, 10), (4_000, 20)])
def test_a_warmup_is_a_small_share_of_short_runs_too(own_steps, warmup):
    assert warmup_steps(replace(QUESTION, own_steps=own_steps)) == warmup


def test_the_least_updates_have_a_range_that_holds_the_planted_ones(tmp_path):
    answer = ask(FakeLearner(**PLANTED), tmp_path)
    low, high = answer.law["least_steps_range"]
    assert low < answer.law["least_steps"] < high
    assert low < 120 < high
