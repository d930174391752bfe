"""The controls in a real browser: what they show is what the laws give in Python for the same numbers."""

import json
import random
from dataclasses import replace

import pytest

from legroom.laws import what_if
from legroom.reports.figures import Section, WhatIf
from legroom.reports.numbers import quantity
from legroom.reports.page import Page, PageSection, render_page
from legroom.reports.what_if import CONTROLS, PARTS, doublings, labelled, time_figure

FACTORS = {
    "num_steps": 400.0,
    "known_size": 256.0,
    "target_value": 0.97,
    "planned_value": 0.97,
    "values": [0.5, 0.9, 0.95, 0.98],
    "updates": [20, 90, 210, 430],
    "critical_batch_size": 512.0,
    "sizes": [16, 64, 256, 1024],
    "seconds": [0.010, 0.012, 0.031, 0.118],
    "inline_seconds": 0.0002,
    "worker_seconds": 0.00025,
    "contention": 0.05,
    "coherence": 0.001,
    "core_seconds": 0.00006,
    "num_workers": 2,
    "fixed_bytes": 2.1e9,
    "bytes_per_sample": 7.3e6,
    "device_bytes": 16 * 2**30,
    "update": 0.002,
    "evaluation": 1.5,
    "num_evaluations": 4,
    "batch_size": 256,
    "num_passes": 1,
    "num_devices": 1,
    "parameter_bytes": 1e8,
    "latency": 1e-5,
    "bandwidth": 25e9,
    "numbers": [1, 2, 8],
    "slowdowns": [1.0, 1.05, 1.3],
    "extras": [0.0, 0.0005, -0.0002],
    "on_one_machine": 0,
    "price_per_hour": 2.5,
    "steps_spread": 1.2,
    "seconds_spread": 1.1,
}
ASKED = WhatIf(
    factors=FACTORS,
    candidates=doublings(16, 4096, own=256),
    target="score 0.97",
    baseline_seconds=95.0,
    guessed={"bandwidth": "</script><b>Nobody measured the link"},
    figure="planted-time",
)

SUMMARY = "Raise <b>--budget</b> to 1 min 5 s for 3 samples, not -7."


@pytest.fixture(scope="module")
def opened(open_section):
    """A page with the controls, and what is wrong with it."""
    figures = [time_figure("planted-time", ASKED)]
    return open_section(Section(title="What?", summary=SUMMARY, facts=[], figures=figures, what_if=ASKED))


@pytest.fixture
def page(opened):
    """The page with the plan's own numbers, in which nothing may go wrong."""
    page, said = opened
    page.set_viewport_size({"width": 1000, "height": 900})
    page.click("#what-if button[type=reset]")
    page.evaluate("new Promise(done => setTimeout(done))")
    yield page
    assert said == []


def fill(page, **values):
    for name, value in values.items():
        page.fill(f"#what-if input[name={name}]", value)


def result(page, name):
    return json.loads(page.locator(f"#result-{name}").get_attribute("data-value"))


def wanted(factors, candidates):
    """All that the page shows, from Python."""
    sizes = sorted({*candidates, factors["batch_size"] * factors["num_passes"]})
    known = factors["critical_batch_size"] is not None
    return {
        "time": what_if.seconds_range(factors),
        "steps": what_if.steps_range(factors),
        "step": what_if.step_parts(factors),
        "memory": [what_if.memory_needed(factors), what_if.most_in_memory(factors)],
        "money": what_if.cost(factors),
        "best": what_if.best_batch(factors, sizes) if known else None,
    }


def check(page, factors):
    for name, value in wanted(factors, ASKED.candidates).items():
        assert result(page, name) == (value if value is None else pytest.approx(value, rel=1e-9)), name


def test_at_first_the_page_shows_what_the_plan_has(page):
    check(page, FACTORS)
    assert page.locator("#result-time").inner_text() == quantity(what_if.seconds_range(FACTORS)[1], "seconds")
    assert "1 min 35 s" in page.locator("#remark-time").inner_text()
    assert page.locator("#result-memory").inner_text() == quantity(what_if.memory_needed(FACTORS), "bytes")


def random_values(rng):
    """What a reader may write into the fields."""
    return {
        "target_value": round(rng.uniform(0.5, 0.98), 3),
        "batch_size": rng.randint(1, 5000),
        "num_passes": rng.randint(1, 4),
        "num_workers": rng.randint(0, 16),
        "num_devices": rng.randint(1, 64),
        "device_bytes": rng.randint(1, 80),
        "bandwidth": round(rng.uniform(0.1, 400), 2),
        "price_per_hour": round(rng.uniform(0, 9), 2),
        "num_steps": rng.randint(1, 10**6),
        "critical_batch_size": rng.choice([None, rng.randint(1, 10**5)]),
    }


def as_factors(values):
    scales = {control.name: control.scale for control in CONTROLS}
    return {**FACTORS, **{name: value if value is None else value * scales[name] for name, value in values.items()}}


def test_every_control_changes_the_numbers_to_what_python_gives(page):
    values = random_values(random.Random(1))
    assert values.keys() == {control.name for control in CONTROLS}
    for number in range(1, len(values) + 1):
        given = dict(list(values.items())[:number])
        fill(page, **{list(given)[-1]: str(list(given.values())[-1] or "")})
        check(page, as_factors(given))


@pytest.mark.parametrize("seed", range(30))
def test_all_controls_together_give_what_python_gives(page, seed):
    values = random_values(random.Random(seed))
    page.evaluate(
        "values => { for (const [name, value] of Object.entries(values)) form.elements[name].value = value ?? '';"
        "form.dispatchEvent(new Event('input')); }",
        values,
    )
    check(page, as_factors(values))


def test_the_mark_is_the_plans_until_a_reader_chooses_another_batch(page):
    labels = "() => figures.find(one => one.name === asked.figure).marks.map(mark => mark.label)"
    assert page.evaluate(labels) == ["as recommended"]
    fill(page, batch_size="300")
    assert page.evaluate(labels) == ["chosen"]


def test_another_target_takes_as_many_updates_as_trials_did_and_is_named_where_the_plans_was(page):
    fill(page, target_value="0.9")
    factors = {**FACTORS, "target_value": 0.9}
    check(page, factors)
    share = 90 / (210 * (430 / 210) ** (2 / 3))
    assert result(page, "steps") == pytest.approx([share * 400] * 2)
    assert page.locator("#label-time").inner_text() == "Time to score 0.9"
    assert page.locator("#caption-planted-time").inner_text().startswith("Time to score 0.9 against")
    assert "the job's own" not in page.locator("#remark-time").inner_text(), "they are known at the plan's target"


@pytest.mark.parametrize(("curve", "num_fields"), [({}, 1), ({"values": [], "updates": []}, 0)])
def test_the_page_asks_for_a_target_where_trials_tell_what_others_take(curve, num_fields):
    asked = replace(ASKED, factors={**FACTORS, **curve})
    section = Section(title="What?", summary="Planted.", facts=[], what_if=asked)
    page = Page(job="planted", name="planted", sections=[PageSection(question="plan", section=section)], notes=[])
    assert render_page(page).count('<input name="target_value"') == num_fields


def test_the_figure_follows_the_controls(page):
    fill(page, num_workers="0", batch_size="300")
    factors = {**FACTORS, "num_workers": 0, "batch_size": 300}
    sizes = sorted({*ASKED.candidates, 300})
    page.wait_for_function("() => document.getElementById('figure-planted-time').data[0].x.includes('300')")
    drawn = page.evaluate("document.getElementById('figure-planted-time').data.map(one => [one.name, one.x, one.y])")
    assert [one[0] for one in drawn][: len(PARTS)] == list(PARTS)
    assert drawn[0][1] == [f"{size:,}" for size in sizes]
    for place, size in enumerate(sizes):
        run = what_if.at_batch(factors, size)
        assert [60 * part[2][place] for part in drawn[: len(PARTS)]] == pytest.approx(what_if.run_parts(run), rel=1e-9)
        assert 60 * drawn[-1][2][place] == pytest.approx(what_if.seconds_range(run)[1], rel=1e-9)


def test_a_batch_that_no_longer_fits_is_split_into_passes_and_none_is_told(page):
    fill(page, device_bytes="3")
    most = what_if.most_in_memory({**FACTORS, "device_bytes": 3 * 2**30})
    assert 0 < most < 256
    assert "passes of" in page.locator("#remark-step").inner_text()
    fill(page, device_bytes="1")
    assert "no batch does" in page.locator("#remark-memory").inner_text()


def test_where_the_critical_batch_is_unknown_other_batches_have_a_range_and_none_is_called_best(page):
    fill(page, critical_batch_size="")
    assert result(page, "steps") == [400, 400]
    fill(page, batch_size="512")
    assert result(page, "steps") == [200, 400]
    assert "legroom rate" in page.locator("#remark-best").inner_text()
    assert page.locator("#take-best").is_hidden()
    fill(page, critical_batch_size="512")
    assert result(page, "steps") == pytest.approx([400 / 3 * 2] * 2)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("batch_size", "0", "Batch of a pass needs a whole number from 1 on."),
        ("batch_size", "", "Batch of a pass needs a whole number from 1 on."),
        ("num_workers", "-1", "Loader workers needs a whole number from 0 on."),
        ("num_devices", "1.5", "Devices needs a whole number from 1 on."),
        ("device_bytes", "0", "Memory of a device (GiB) needs a number from 0.001 on."),
        ("target_value", "0.99", "Score or loss to reach needs a number from 0.5 to 0.98."),
    ],
)
def test_what_is_no_such_number_is_told_and_leaves_the_results_alone(page, name, value, sentence):
    before = result(page, "time")
    fill(page, **{name: value})
    assert page.locator("#what-if-wrong").inner_text() == sentence
    assert page.locator(f"#what-if input[name={name}]").get_attribute("aria-invalid") == "true"
    assert result(page, "time") == before


def test_the_keyboard_reaches_every_control_sees_where_it_is_and_takes_the_best_batch(page):
    fill(page, batch_size="16")
    best = result(page, "best")
    assert best != 16
    page.locator("#what-if input").first.focus()
    for control in CONTROLS:
        assert page.evaluate("document.activeElement.name") == control.name
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert page.evaluate("document.activeElement.labels[0].innerText.trim()") == labelled(control, FACTORS)
        page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "take-best"
    page.keyboard.press("Enter")
    assert page.locator("#what-if input[name=batch_size]").input_value() == str(best)
    check(page, {**FACTORS, "batch_size": best})


def test_a_link_that_nobody_measured_is_told_where_there_are_devices_to_link(page):
    sentence = page.locator("#guessed-bandwidth")
    assert sentence.is_hidden()
    fill(page, num_devices="2")
    assert sentence.is_visible()


def test_no_line_ends_within_an_option_or_between_a_number_and_its_unit(page):
    told = page.locator("#plan .summary .whole")
    assert told.all_inner_texts() == ["--budget", "1 min 5 s"]
    wholes = page.locator("#remark-time .whole")
    assert wholes.all_inner_texts()[-1] == "1 min 35 s"
    assert wholes.first.evaluate("one => getComputedStyle(one).whiteSpace") == "nowrap"


def test_results_are_announced_and_names_stay_text(page):
    assert page.locator(".results").get_attribute("aria-live") == "polite"
    assert page.locator("b").count() == 0
    assert "</script><b>Nobody" in page.locator("#guessed-bandwidth").text_content()


def test_numbers_read_in_the_page_as_they_do_in_a_terminal(page):
    seconds = [1e-5, 0.00234, 0.0999, 0.4321, 1.26, 59.94, 61.2, 3599.4, 7325.0, 123456.0]
    seconds += [0.9996, 59.97, 3599.6, 7199.0]  # these round to a whole larger unit
    sizes = [0, 512, 1536, 2**20 * 3.3, 2**30 * 15.97, 2**40 * 1234.5]
    assert page.evaluate("all => all.map(inSeconds)", seconds) == [quantity(one, "seconds") for one in seconds]
    assert page.evaluate("all => all.map(inBytes)", sizes) == [quantity(one, "bytes") for one in sizes]


def test_the_controls_fit_a_phone(page):
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 400")
    right = "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
    assert page.locator("#what-if *:visible").evaluate_all(right) <= 400 - 20
