"""How the law is scored where runs scatter, and where two optimizers are compared."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legroom.laws.model_size import Count, fit_size
from legroom.questions.size.evidence import Evidence
from legroom.questions.size.fits import fit_steps
from legroom.questions.size.planted import evidence_of
from legroom.questions.size.records import SizeQuestion
from legroom.questions.size.scores import as_sure, score_held_out
from legroom.questions.size.solvers import compare_solvers
from legroom.testing import FakeSizes

PLANTED = FakeSizes(a=40.0, k1=0.8, k2=0.5, b=60.0)
ANSWERS = Path(__file__).parents[3] / "validation" / "2026-11-19-two-cores-size" / "answers"


@pytest.mark.parametrize("num_runs", [1, 2, 3, 5, 7])
def test_the_median_of_runs_scatters_as_the_mean_of_as_many_does(num_runs):
    chance = np.random.default_rng(0)
    medians = [statistics.median(chance.standard_normal(num_runs)) for _ in range(20_000)]
    assert np.std(medians) == pytest.approx(1 / math.sqrt(as_sure(num_runs)), rel=0.03)


def test_a_median_over_seeds_is_scored_against_the_range_of_a_median():
    evidence = evidence_of(replace(PLANTED, noise=0.1))
    law = fit_steps([trial for trial in evidence.of() if not trial.held_out])
    scored = score_held_out(law, None, evidence)[0]
    assert scored["num_seeds"] == 3
    found = evidence.at(scored["value"], scored["fraction"])[0].result
    spans = [law.steps_range(found.num_parameters, found.num_samples, num_runs=num) for num in (as_sure(3), 3)]
    assert scored["predicted_range"] == spans[0] != spans[1]


def refitted(answer):
    """Whether each point held out of an answer lies in its range by the counts that were not."""
    points = [each for each in answer["points"] if each["steps"] is not None]
    inside = [each for each in points if not each["held_out"]]
    law = fit_size(
        [Count(each["num_parameters"], each["num_samples"], each["steps"], each["at_least"]) for each in inside]
    )
    for held in answer["held_out"]:
        there = (each for each in points if (each["width"], each["fraction"]) == (held["value"], held["fraction"]))
        place = next((each["num_parameters"], each["num_samples"]) for each in there)
        low, high = law.steps_range(*place, num_runs=as_sure(held["num_seeds"]))
        yield held["steps"] <= high and (held["at_least"] or low <= held["steps"])


def test_updates_of_real_jobs_that_were_held_out_lie_in_their_ranges_in_four_of_five_cases():
    """Counts that agree by chance show a plateau that larger models do not have."""
    answers = [json.loads(path.read_text()) for path in sorted(ANSWERS.glob("*.json"))]
    held = [is_inside for answer in answers for is_inside in refitted(answer)]
    assert len(held) == 19
    assert sum(held) >= 0.8 * len(held)


def test_optimizers_are_compared_at_sizes_that_both_ran_at():
    own = [replace(trial, held_out=False) for trial in evidence_of(PLANTED).trials if trial.seed == 0]
    adam = [replace(trial, solver="adam") for trial in own if trial.value < 128]
    question = SizeQuestion(
        device="cpu",
        settings={"seed": 0, "learning_rate": 0.1},
        vary="width",
        values=(16, 32, 64, 128),
        own_value=128,
        num_parameters=[PLANTED.parameters(width) for width in (16, 32, 64, 128)],
        fractions=(0.0625, 0.125, 0.25),
        num_samples=PLANTED.num_samples,
        compares_solvers=True,
        own_solver="sgd",
    )
    solvers, claims = compare_solvers(Evidence(trials=[*own, *adam]), question)
    assert solvers[0]["steps"] == pytest.approx(solvers[1]["steps"], rel=0.02)
    assert claims["adam_needs_fewer"] is None
