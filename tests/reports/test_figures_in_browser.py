"""Every kind of figure in a real browser, from planted data: bands, whiskers, rings, stacks, cells, scales."""

import itertools

import pytest

from legroom.reports.figures import Axis, Figure, HeatMap, Mark, Section, Series

SIZES, LAW = [8, 64, 512], {"low": [0.5, 1.5, 2.5], "high": [1.5, 2.5, 3.5]}
NASTY = "</script><b>bold</b>"


def figure(name, **given):
    drawn = {"title": name, "x": Axis(label="batch size", log=True), "y": Axis(label="time", unit="seconds")}
    return Figure(name=name, **(drawn | given))


def bars(name, values):
    return Series(name=name, x=["8", "64", "512"], y=values, style="bars")


FIGURES = [
    figure(
        "band",
        series=[
            Series(name="law", x=SIZES, y=[1.0, 2.0, 3.0], style="dashes", group="law", **LAW),
            Series(name="fitted", x=SIZES, y=[1.0, 2.0, 3.0], style="points", group="law"),
            Series(name="held out", x=[128], y=[2.2], style="rings", low=[2.0], high=[2.5], group="law"),
            Series(name="another", x=SIZES, y=[3.0, 2.0, 1.0]),
        ],
    ),
    figure("stack", stacked=True, series=[bars("compute", [1, 2, 3]), bars("update", [1, 1, 1])]),
    figure("rates", x=Axis(label="rate", log=True), series=[Series(name="a", x=[1e-5, 1e-2, 0.3], y=[1, 2, 3])]),
    figure("chosen", series=[bars("time", [1, 2, 3])], marks=[Mark(axis="x", value="64", label="chosen")]),
    figure(
        "cells",
        y=Axis(label=NASTY, log=True),
        heat=HeatMap(
            x=SIZES,
            y=[0.001, 0.01],
            values=[[10.0, 20.0, None], [30.0, 5.0, 400.0]],
            label=NASTY,
            unit="seconds",
            log=True,
            chosen=(64, 0.01),
        ),
    ),
    figure(
        "close",
        series=[Series(name="seen", x=SIZES, y=[1.0, 1.1, 1.2], low=[0.9, 1.0, 1.1], high=[1.1, 1.2, 200.0])],
        marks=[Mark(axis="x", value=value, label=f"machine {value}: the knee is here") for value in (256, 300, 440)],
    ),
]


@pytest.fixture(scope="module")
def opened(open_section):
    """A page of all kinds of figures, and what is wrong with it."""
    return open_section(Section(title="?", summary="Planted.", facts=[], figures=FIGURES))


@pytest.fixture
def page(opened):
    """The page, in which nothing may go wrong."""
    page, said = opened
    yield page
    assert said == []


def drawn(page, name):
    """What plotly holds of a figure."""
    return page.evaluate(
        "name => { const plot = document.getElementById('figure-' + name);"
        "return { data: plot.data, layout: plot.layout } }",
        name,
    )


def test_a_law_has_a_band_between_its_ends_and_shares_its_colour_with_what_it_was_fitted_to(page):
    band, law, fitted, held_out, another = drawn(page, "band")["data"]
    assert band["y"] == [*LAW["high"], *reversed(LAW["low"])]
    assert law["line"]["color"] == fitted["marker"]["color"] == held_out["marker"]["color"]
    assert law["line"]["color"] != another["line"]["color"]
    assert held_out["marker"]["symbol"] == "circle-open"
    assert held_out["error_y"]["array"][0] == pytest.approx(0.3)
    assert held_out["error_y"]["arrayminus"][0] == pytest.approx(0.2)


def boxes(page, selector):
    """Left, right, top and bottom of what is drawn."""
    return page.locator(selector).evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right, box.top, box.bottom])"
    )


def test_labels_of_marks_that_lie_close_together_stand_below_each_other_and_below_the_buttons(page):
    labels = boxes(page, "#figure-close .shape-label text")
    assert len(labels) == 3
    for (*_, earlier), (*_, later) in itertools.pairwise(
        labels
    ):  # one begins with empty lines, which its box may count
        assert later - earlier >= 12
    ((*_, buttons_end),) = boxes(page, "#figure-close .modebar-container .modebar")
    assert min(top for _, _, top, _ in labels) >= buttons_end - 1


def test_one_far_end_of_a_range_is_no_reason_for_a_larger_unit(page):
    assert drawn(page, "close")["layout"]["yaxis"]["title"]["text"] == "time (s)"


def test_a_last_figure_without_a_neighbour_is_as_wide_as_the_first(page):
    widths = [round(right - left) for left, right, *_ in boxes(page, "figure")]
    assert widths[0] == widths[-1]
    assert max(widths[1:-1]) < widths[0] / 2


def test_parts_of_a_time_stand_on_top_of_each_other_where_asked(page):
    assert drawn(page, "stack")["layout"]["barmode"] == "stack"
    assert drawn(page, "chosen")["layout"]["barmode"] == "group"
    assert drawn(page, "chosen")["layout"]["shapes"][0]["x0"] == 1  # plotly would read "64" as a number


def test_logarithmic_axes_double_for_counts_and_count_decades_for_rates(page):
    assert drawn(page, "band")["layout"]["xaxis"]["ticktext"] == ["8", "16", "32", "64", "128", "256", "512"]
    assert drawn(page, "rates")["layout"]["xaxis"]["ticktext"] == ["1e-5", "1e-4", "0.001", "0.01", "0.1"]


def test_cells_show_their_values_in_one_unit_leave_gaps_and_frame_the_chosen(page):
    cells = drawn(page, "cells")
    (heat,) = cells["data"]
    assert cells["layout"]["annotations"][0]["text"].endswith("(s)")
    assert heat["text"] == [["10", "20", ""], ["30", "5", "400"]]
    assert [cells["layout"]["shapes"][0][key] for key in ("x0", "x1", "y0", "y1")] == [0.5, 1.5, 0.5, 1.5]
    assert page.locator("#figure-cells .hm image").count() == 1
    assert page.locator("b").count() == 0
    table = page.locator("figure:has(#figure-cells) table")
    assert table.locator("td").all_text_contents()[4:] == ["0.01", "30.0 s", "5.0 s", "6 min 40 s"]


def test_a_series_is_hidden_and_shown_by_the_keyboard(page):
    shown = "document.getElementById('figure-band').data.map(one => one.visible)"
    page.locator("#legend-band button", has_text="another").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {shown}.at(-1) === false")
    assert page.evaluate(shown)[:-1] == [True] * 4
    assert page.evaluate("document.activeElement.textContent") == "another"
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {shown}.at(-1) === true")
