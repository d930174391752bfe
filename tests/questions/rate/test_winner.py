"""Which of several rates a search calls the best."""

from dataclasses import replace

from legroom.questions.rate.evidence import Point, Trunk, loss_at
from legroom.questions.rate.ranking import winner
from legroom.questions.rate.records import RateQuestion

QUESTION = RateQuestion(
    device="cpu",
    settings={"batch_size": 32, "accumulation_steps": 1, "learning_rate": 0.1, "seed": 0, "warmup_steps": 0},
    target_name="score",
    target=0.986,
    goal="max",
    optimizer="sgd",
    num_seeds=3,
)


def trunk(rate, *points, seed=0):
    """One with runs of so many updates, their losses and scores."""
    found = [
        Point(to_step=steps, num_steps=steps, num_samples=32 * steps, value=-score, loss=loss, score=score)
        for steps, loss, score in points
    ]
    return Trunk(learning_rate=rate, batch_size=32, seed=seed, points=found)


LUCKY = trunk(0.03, (101, 0.104, 0.978), (152, 0.078, 0.975), (228, 0.048, 0.986))
QUICK = trunk(0.09, (101, 0.047, 0.983), (152, 0.049, 0.983), (228, 0.039, 0.983))
"""As seen of a CNN on digits: one of 360 samples more is luck, half of the loss is not."""


def test_a_rate_ahead_by_its_loss_wins_where_a_sample_more_or_less_decides_the_score():
    assert winner([LUCKY, QUICK], QUESTION) is QUICK


def test_where_losses_had_risen_again_the_score_decides():
    sure = trunk(0.03, (101, 0.04, 0.978), (152, 0.08, 0.986))
    assert loss_at([sure], QUESTION.wanted) is None
    assert winner([sure, QUICK], QUESTION) is sure


def test_a_rate_with_which_most_seeds_have_the_score_comes_first():
    seeds = [trunk(0.03, (228, 0.048, 0.986), seed=seed) for seed in (1, 2)]
    assert winner([LUCKY, QUICK], QUESTION, [*seeds, trunk(0.09, (228, 0.04, 0.983), seed=1)]) is LUCKY


def test_a_target_that_is_a_loss_is_judged_by_it():
    question = replace(QUESTION, target_name="loss", target=0.05, goal="min")
    slow, quick = (
        Trunk(learning_rate=rate, batch_size=32, seed=0, points=[
            Point(to_step=steps, num_steps=steps, num_samples=32 * steps, value=loss, loss=loss)
            for steps, loss in ((50, 0.2), (there, 0.04))
        ])
        for rate, there in ((0.1, 100), (0.3, 80))
    )  # fmt: skip
    assert winner([slow, quick], question) is quick
