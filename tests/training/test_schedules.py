"""Schedules: laws over random ones, torch's own as a second opinion, and what is refused."""

import math
import random
from itertools import pairwise

import pytest
import torch
from torch.optim import lr_scheduler

from legroom.errors import UsageError
from legroom.training import schedules
from legroom.training.schedule_text import KEYS, SCHEDULES, check_schedule, make_schedule

BEGIN_AT_THE_PEAK = ("constant", "polynomial-after-warmup", "linear", "cosine")
SHARE = ("end", "rise", "start", "cooldown")


def a_text(rng: random.Random, name: str) -> str:
    """A random valid text of that name."""
    epochs = "+".join(f"{epoch:.2f}" for epoch in sorted(rng.sample([0.5 * n for n in range(1, 40)], 3)))
    words = {"epochs": epochs, "factor": f"{rng.uniform(0.05, 1):.3f}"}
    words |= {key: f"{rng.uniform(0.1, 4):.3f}" for key in ("power", "every", "after")}
    words |= {key: f"{rng.uniform(0, 1):.3f}" for key in SHARE} | {"shape": rng.choice(["linear", "sqrt"])}
    given = [f"{key}={words[key]}" for key in KEYS[name] if key in ("epochs", "factor") or rng.random() < 0.7]
    return name + (":" + ",".join(given) if given else "")


def a_run(rng: random.Random, name: str) -> dict[str, float]:
    per_epoch = rng.choice([1, 7, 39, 39.1])
    num_steps = round(per_epoch * rng.randrange(2, 20))
    num_warmup = 0 if name == "one-cycle" else rng.randrange(0, num_steps)
    return {"num_steps": num_steps, "steps_per_epoch": per_epoch, "warmup_steps": num_warmup}


CASES = [pytest.param(name, seed, id=f"{name}-{seed}") for name in SCHEDULES for seed in range(10)]


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_a_rate_is_never_negative_nor_above_the_peak(name, seed):
    rng = random.Random(seed)
    run = a_run(rng, name)
    rate = make_schedule(a_text(rng, name), **run, peak=3.0, warmup_start=rng.random())
    values = [rate(step) for step in range(run["num_steps"] + 20)]
    assert all(0 <= value <= 3.0 + 1e-12 for value in values)


@pytest.mark.parametrize(("name", "seed"), [case for case in CASES if case.values[0] != "one-cycle"])
def test_warmup_climbs_and_what_follows_never_does(name, seed):
    rng = random.Random(seed)
    run = a_run(rng, name)
    start = rng.random()
    rate = make_schedule(a_text(rng, name), **run, warmup_start=start)
    end = run["warmup_steps"]
    climb = [rate(step) for step in range(end)]
    rest = [rate(step) for step in range(end, run["num_steps"])]
    assert climb == sorted(climb)
    assert all(low >= high - 1e-12 for low, high in pairwise(rest))
    if end:
        assert rate(0) == start
        assert rate(end - 1) < 1.0


@pytest.mark.parametrize("name", BEGIN_AT_THE_PEAK)
@pytest.mark.parametrize("seed", range(10))
def test_the_rate_is_continuous_where_warmup_ends(name, seed):
    rng = random.Random(seed)
    run = a_run(rng, name) | {"num_steps": 5000, "warmup_steps": 1000}
    rate = make_schedule(a_text(rng, name), **run)
    assert rate(1000) == pytest.approx(1.0)
    assert rate(1000) - rate(999) == pytest.approx(1 / 1000)


@pytest.mark.parametrize("name", ["polynomial", "polynomial-after-warmup", "linear", "cosine", "stable"])
@pytest.mark.parametrize("num_warmup", [0, 30, 99])
def test_the_rate_reaches_zero_when_the_run_ends_and_not_before(name, num_warmup):
    rate = make_schedule(name, num_steps=100, steps_per_epoch=10, warmup_steps=num_warmup)
    assert rate(99) > 0
    assert rate(100) == rate(150) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_the_peak_multiplies_every_rate(seed):
    rng = random.Random(seed)
    name = rng.choice(SCHEDULES)
    text, run, peak = a_text(rng, name), a_run(rng, name), rng.uniform(0.01, 40)
    one, scaled = make_schedule(text, **run), make_schedule(text, **run, peak=peak)
    for step in range(0, run["num_steps"], 3):
        assert scaled(step) == pytest.approx(peak * one(step))


@pytest.mark.parametrize("name", ["multistep", "polynomial", "stable", "exponential"])
@pytest.mark.parametrize("seed", range(10))
def test_a_whole_run_schedule_is_the_same_after_any_warmup(name, seed):
    rng = random.Random(seed)
    text, run = a_text(rng, name), a_run(rng, name)
    without = make_schedule(text, **run | {"warmup_steps": 0})
    warmed = make_schedule(text, **run)
    for step in range(run["warmup_steps"], run["num_steps"]):
        assert warmed(step) == without(step)


def test_the_whole_run_polynomial_falls_to_four_fifths_when_the_warmup_of_32k_ends():
    run = {"num_steps": 90 * 39, "steps_per_epoch": 39, "warmup_steps": 390}
    assert make_schedule("polynomial:power=2", **run)(390) == pytest.approx((8 / 9) ** 2)
    assert make_schedule("polynomial-after-warmup:power=2", **run)(390) == 1.0


def test_a_warmup_longer_than_the_run_never_reaches_the_peak():
    for name in (name for name in SCHEDULES if name != "one-cycle"):
        rate = make_schedule(a_text(random.Random(0), name), num_steps=50, steps_per_epoch=10, warmup_steps=100)
        assert [rate(step) for step in range(50)] == [step / 100 for step in range(50)]


def test_the_rate_of_ptb_is_halved_every_epoch_after_the_fourth():
    rate = make_schedule("exponential:factor=0.5,every=1,after=4", num_steps=130, steps_per_epoch=10)
    assert [rate(10 * epoch) for epoch in range(8)] == [1, 1, 1, 1, 0.5, 0.25, 0.125, 0.0625]
    assert [rate(10 * epoch + 9) for epoch in range(8)] == [1, 1, 1, 1, 0.5, 0.25, 0.125, 0.0625]


def test_boundaries_in_parts_of_an_epoch_survive_rounding():
    for text in ("multistep:epochs=0.07,factor=0.5", "exponential:factor=0.5,every=0.07"):  # 0.07 * 100 > 7
        rate = make_schedule(text, num_steps=20, steps_per_epoch=100)
        assert (rate(6), rate(7)) == (1.0, 0.5)


def test_boundaries_beyond_any_run_leave_the_peak():
    for text in ("multistep:epochs=1e308", "exponential:factor=0.5,after=1e300,every=1e-300"):
        assert make_schedule(text, num_steps=10, steps_per_epoch=1000)(9) == 1.0


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("cooldown", [0.0, 0.1, 0.2, 1.0])
def test_a_stable_rate_is_the_peak_until_its_cooldown_and_falls_to_zero_in_it(cooldown, power):
    rate = schedules.stable(200, 3.0, cooldown=cooldown, power=power)
    start = round((1 - cooldown) * 200)
    assert {rate(step) for step in range(start + 1)} == {3.0}
    falling = [rate(step) for step in range(start, 201)]
    assert all(high > low for high, low in pairwise(falling))
    if cooldown:
        assert rate(200) == rate(500) == 0.0
        assert rate(start + (200 - start) // 4) == pytest.approx(3.0 * (1 - 0.25**power))


def test_the_part_before_the_cooldown_is_the_same_in_runs_of_all_lengths():
    rates = [make_schedule("stable", num_steps=num, steps_per_epoch=10, warmup_steps=20) for num in (100, 1000)]
    assert [rates[0](step) for step in range(81)] == [rates[1](step) for step in range(81)]


def test_uneven_epochs_do_not_drift():
    rate = make_schedule("exponential:factor=0.5,every=0.5", num_steps=700, steps_per_epoch=7)
    assert [math.log2(rate(7 * epoch)) for epoch in range(0, 100, 9)] == [-2 * epoch for epoch in range(0, 100, 9)]


@pytest.mark.parametrize("seed", range(20))
def test_join_gives_each_schedule_its_own_count(seed):
    rng = random.Random(seed)
    at = sorted(rng.sample(range(1, 60), 2))
    rate = schedules.join([lambda step, part=part: 1000 * part + step for part in range(3)], at=at)
    for step in range(100):
        part = sum(step >= boundary for boundary in at)
        assert rate(step) == 1000 * part + step - [0, *at][part]


def torch_rates(make, num_steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
    scheduler = make(optimizer)
    seen = []
    for _ in range(num_steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (schedules.cosine(97, 0.7, end=0.01), lambda o: lr_scheduler.CosineAnnealingLR(o, 97, eta_min=0.01)),
        (schedules.polynomial(97, 0.7, power=2.5), lambda o: lr_scheduler.PolynomialLR(o, 97, power=2.5)),
        (schedules.linear(97, 0.7), lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=97)),
        (schedules.exponential(0.7, 0.97, every=1), lambda o: lr_scheduler.ExponentialLR(o, 0.97)),
        (schedules.exponential(0.7, 0.5, every=9), lambda o: lr_scheduler.StepLR(o, 9, 0.5)),
        (schedules.multistep([20, 50, 51], 0.3, 0.7), lambda o: lr_scheduler.MultiStepLR(o, [20, 50, 51], 0.3)),
        (schedules.one_cycle(97, 0.7), lambda o: lr_scheduler.OneCycleLR(o, 0.7, total_steps=97)),
        (schedules.warmup(30, 0.7, start=0.07), lambda o: lr_scheduler.LinearLR(o, 0.1, 1.0, total_iters=30)),
    ],
    ids=["cosine", "polynomial", "linear", "exponential", "step", "multistep", "one_cycle", "warmup"],
)
def test_rates_are_those_of_torch(ours, theirs):
    assert [ours(step) for step in range(97)] == pytest.approx(torch_rates(theirs, 97), abs=1e-9)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 5])
def test_one_cycle_holds_in_the_shortest_runs(num_steps):
    rate = schedules.one_cycle(num_steps, 1.0)
    values = [rate(step) for step in range(num_steps + 2)]
    assert 0.9 < max(values) <= 1.0
    assert min(values) >= 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cosin", "names: constant, multistep"),
        ("", "names: constant"),
        ("Cosine", "names: constant"),
        (None, "None is no schedule"),
        ("cosine:power=2", "keys of cosine: end"),
        ("constant:end=0", "keys of constant: none"),
        ("cosine:", "keys of cosine: end"),
        ("polynomial:power", "power must be a number above 0"),
        ("polynomial:power=-1", "power must be a number above 0"),
        ("polynomial:power=nan", "power must be a number above 0"),
        ("polynomial:power=inf", "power must be a number above 0"),
        ("polynomial:power=1+2", "power must be a number above 0"),
        ("polynomial:power=2,power=3", "gives power twice"),
        ("multistep", "lacks epochs"),
        ("multistep:epochs=30+20", "increasing numbers"),
        ("multistep:epochs=30+30", "increasing numbers"),
        ("multistep:epochs=0+30", "increasing numbers"),
        ("multistep:epochs=-3+30", "increasing numbers"),
        ("multistep:epochs=30+nan", "increasing numbers"),
        ("multistep:epochs=30+inf", "increasing numbers"),
        ("multistep:epochs=30,factor=0", "factor must be a number above 0 and at most 1"),
        ("multistep:epochs=30,factor=10", "factor must be a number above 0 and at most 1"),
        ("exponential", "lacks factor"),
        ("exponential:factor=0.5,every=0", "every must be a number above 0"),
        ("exponential:factor=0.5,after=-1", "after must be a number above 0"),
        ("one-cycle:rise=1.5", "rise must be a number from 0 to 1"),
        ("stable:cooldown=1.5", "cooldown must be a number from 0 to 1"),
        ("stable:shape=cubic", "shape must be linear or sqrt"),
        ("stable:shape=0.5", "shape must be linear or sqrt"),
        ("cosine:end=ten", "end must be a number from 0 to 1"),
    ],
)
def test_a_bad_text_is_refused_in_a_sentence(text, said):
    with pytest.raises(UsageError) as refusal:
        check_schedule(text)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_steps": 0},
        {"steps_per_epoch": 0},
        {"steps_per_epoch": math.nan},
        {"warmup_steps": -1},
        {"warmup_start": -0.1},
        {"warmup_start": 1.1},
        {"peak": -1.0},
        {"peak": math.nan},
        {"peak": math.inf},
    ],
    ids=str,
)
def test_a_run_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        make_schedule("cosine", **{"num_steps": 10, "steps_per_epoch": 5} | wrong)


def test_one_cycle_refuses_a_second_warmup():
    with pytest.raises(UsageError, match="Set warmup_steps to 0"):
        make_schedule("one-cycle", num_steps=10, steps_per_epoch=5, warmup_steps=2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: schedules.constant(-1.0),
        lambda: schedules.warmup(-1, 1.0),
        lambda: schedules.warmup(3, 1.0, start=math.nan),
        lambda: schedules.multistep([5, 3], 0.1, 1.0),
        lambda: schedules.multistep([-1], 0.1, 1.0),
        lambda: schedules.multistep([math.nan], 0.1, 1.0),
        lambda: schedules.polynomial(0, 1.0, 2.0),
        lambda: schedules.polynomial(5, 1.0, -2.0),
        lambda: schedules.cosine(5, 1.0, end=-0.1),
        lambda: schedules.exponential(1.0, 0.5, every=0),
        lambda: schedules.exponential(1.0, -0.5, every=1),
        lambda: schedules.one_cycle(5, 1.0, rise=2.0),
        lambda: schedules.stable(5, 1.0, cooldown=2.0),
        lambda: schedules.stable(5, 1.0, power=-1.0),
        lambda: schedules.join([schedules.constant(1.0)], at=[3]),
        lambda: schedules.join([schedules.constant(1.0)] * 3, at=[5, 3]),
        lambda: schedules.join([], at=[]),
    ],
)
def test_a_builder_refuses_what_makes_no_rate(build):
    with pytest.raises(UsageError):
        build()


def test_every_name_has_keys_and_only_names_do():
    assert tuple(KEYS) == SCHEDULES
