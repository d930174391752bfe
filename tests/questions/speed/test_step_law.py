"""The host's pace and the device's own seconds, against planted ones."""

import random
import statistics
from dataclasses import replace

import pytest

from legroom.laws.compute import fit_speed, knee_of
from legroom.questions.speed.batch_sizes import grid
from legroom.questions.speed.records import StepTime
from legroom.questions.speed.step_law import fit_steps, host_pace, law_of, waits_for_host

SIZES = grid(1, 1024)
HOST = 0.02


def device(size):
    return 0.005 + 0.00045 * size


def timed(seed=0, noise=0.0):
    """Steps whose launches take another time at every size, as on a host that others use."""
    rng = random.Random(seed)

    def point(size):
        seconds = max(HOST * rng.uniform(1 - noise, 1 + noise), device(size))
        launches = HOST * rng.uniform(1 - noise, 1 + noise)
        return StepTime(batch_size=size, median_seconds=seconds, device_seconds=device(size), host_seconds=launches)

    return [point(size) for size in SIZES]


def plain(points):
    return [replace(point, device_seconds=0.0, host_seconds=0.0) for point in points]


def mean_error(law):
    return statistics.fmean(abs(law.seconds(size) / max(HOST, device(size)) - 1) for size in SIZES)


def test_planted_clocks_are_recovered():
    law, _ = law_of(timed())
    assert law.host_seconds == pytest.approx(HOST)
    assert law.floor_seconds == pytest.approx(0.005, rel=0.1)
    assert mean_error(law) < 0.01


def test_an_uneven_host_spoils_the_law_of_both_clocks_far_less_than_that_of_steps_alone():
    both = statistics.fmean(mean_error(law_of(timed(seed, noise=0.2))[0]) for seed in range(40))
    alone = statistics.fmean(mean_error(law_of(plain(timed(seed, noise=0.2)))[0]) for seed in range(40))
    assert both < 0.04
    assert both < 0.6 * alone


def test_an_uneven_host_does_not_move_the_knee():
    knee = knee_of(lambda size: size / max(HOST, device(size)), SIZES, 0.9)
    for seed in range(40):
        law, _ = law_of(timed(seed, noise=0.2))
        found = knee_of(law.samples_per_second, SIZES, 0.9)
        assert abs(SIZES.index(found) - SIZES.index(knee)) <= 1


@pytest.mark.parametrize("seed", range(10))
def test_where_the_device_sets_the_pace_the_law_passes_through_the_steps(seed):
    points = [point for point in timed(seed, noise=0.2) if point.batch_size in (1, 32, 256, 1024)]
    law = fit_steps(points)
    assert all(law.seconds(p.batch_size) == pytest.approx(p.median_seconds) for p in points if p.batch_size >= 256)


def test_one_slow_moment_hardly_moves_the_pace_of_the_host():
    points = [point for point in timed() if point.batch_size in (1, 32, 256, 1024)]
    points[2] = replace(points[2], host_seconds=3 * HOST)
    assert host_pace(points) == pytest.approx(HOST)


def test_a_step_far_above_its_launches_does_not_wait_for_them():
    slowed = StepTime(batch_size=48, median_seconds=0.048, device_seconds=0.041, host_seconds=0.021)
    assert not waits_for_host(slowed, 0.021)


def test_where_the_host_sets_the_pace_the_interval_holds_the_steps_it_was_fitted_from():
    points = [point for point in timed(4, noise=0.2) if point.batch_size in (1, 16, 256, 1024)]
    law = fit_steps(points)
    intervals = [law.interval(point.batch_size) for point in points]
    assert all(low <= point.median_seconds <= high for point, (low, high) in zip(points, intervals, strict=True))
    assert intervals[0][1] - intervals[0][0] > 0.06 * law.seconds(1)


def test_a_step_never_takes_less_than_the_slower_clock():
    law, _ = law_of(timed(3, noise=0.1))
    assert all(law.seconds(size) >= max(law.host_seconds, law.work(size)) for size in SIZES)
    assert all(law.seconds(size) <= 1.05 * max(law.host_seconds, law.work(size)) for size in SIZES)


def test_a_size_whose_device_is_unknown_leaves_the_law_of_steps_alone():
    points = timed()
    points[0] = replace(points[0], device_seconds=0.0, host_seconds=0.0)
    assert host_pace(points) == 0.0
    assert fit_steps(points) == fit_speed([(point.batch_size, point.median_seconds) for point in points])


def test_clocks_that_explain_too_little_of_the_steps_are_not_believed():
    waits_for_more = [replace(point, median_seconds=2 * point.median_seconds) for point in timed()]
    assert host_pace(waits_for_more) == 0.0


def test_where_launches_cannot_be_timed_apart_the_steps_that_waited_tell_the_pace():
    synced = [replace(point, host_seconds=0.0) for point in timed()]
    assert host_pace(synced) == pytest.approx(HOST, rel=0.02)
    assert mean_error(fit_steps([synced[place] for place in (0, 6, 12, -1)])) < 0.02


def test_where_no_step_waits_and_no_launch_is_known_the_device_alone_sets_the_pace():
    busy = [
        StepTime(batch_size=size, median_seconds=device(size), device_seconds=device(size))
        for size in (1, 16, 256, 1024)
    ]
    assert host_pace(busy) == 0.0
    assert fit_steps(busy).seconds(64) == pytest.approx(device(64), rel=0.05)


def test_work_of_the_host_that_grows_with_the_batch_is_not_its_pace():
    grows = [
        StepTime(batch_size=size, median_seconds=0.01 + 1e-4 * size, device_seconds=1e-3 + 1e-6 * size)
        for size in (1, 16, 256, 1024)
    ]
    assert host_pace(grows) == 0.0


def test_one_clock_alone_tells_nothing_of_the_host():
    assert not any(waits_for_host(point, HOST) for point in plain(timed()))
    assert fit_steps(plain(timed())).host_seconds == 0.0
