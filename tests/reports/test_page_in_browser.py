"""The page in a real browser: every figure drawn, nothing on the console, names as text, light and dark.

Debian's chromium is used. Without it these tests are skipped, or fail where LEGROOM_REQUIRE_BROWSER is set, as in CI.
"""

from dataclasses import replace

import pytest

from legroom.reports.page import gather_page, write_page
from legroom.reports.saved_answers import save_answer

NASTY = "</script><b>bold</b><img src=x onerror=\"document.title='run'\">"


@pytest.fixture
def nasty_folder(folder, memory_answer):
    """The folder of all answers, one of them with markup wherever a name can stand."""
    save_answer(
        folder,
        replace(
            memory_answer,
            job=NASTY,
            machine=NASTY,
            card=NASTY,
            peak_parts={NASTY: 10**9, "weights": 2 * 10**8},
            peak_phase=NASTY,
            notes=[NASTY],
            not_measured=[NASTY],
            settings={NASTY: NASTY},
        ),
    )
    write_page(folder)
    return folder


def test_every_figure_is_drawn_names_are_text_and_the_console_stays_silent(open_page, nasty_folder):
    page, said = open_page(nasty_folder / "report.html")
    names = [figure.name for part in gather_page(nasty_folder).sections for figure in part.section.figures]
    assert len(names) >= 10
    for name in names:
        marks = page.locator(f"#figure-{name} :is(.trace path, .hm image)").count()
        assert marks > 0, f"{name} shows nothing"
    assert page.locator("b, main img, header img").count() == 0
    assert page.locator(".plot tspan[style*=bold]").count() == 0, "a name became plotly's own markup"
    assert page.title() == f"{NASTY} - legroom"
    assert page.locator("h1").inner_text() == NASTY
    assert any(NASTY in text for text in page.locator("#figure-memory-parts .xtick").all_text_contents())
    assert said == []


def test_times_of_several_batch_sizes_stand_beside_each_other_and_shares_on_top(open_page, few, loading_answer):
    save_answer(few, replace(loading_answer, batch_size=256))
    write_page(few)
    page, said = open_page(few / "report.html")
    bars = "[...document.querySelectorAll(`#figure-${name} .point path`)]"
    find = f"name => {bars}.map(bar => bar.getBoundingClientRect().bottom)"
    bottoms = {name: page.evaluate(find, name) for name in ("loading-cache", "speed-phases")}
    assert len(bottoms["loading-cache"]) == 4
    assert max(bottoms["loading-cache"]) - min(bottoms["loading-cache"]) < 1
    assert max(bottoms["speed-phases"]) - min(bottoms["speed-phases"]) > 10
    assert said == []


def test_hovering_shows_the_value_and_its_unit(open_page, few):
    page, said = open_page(few / "report.html")
    page.locator("#figure-loading-rate .points path").nth(2).hover(force=True)
    page.wait_for_selector("#figure-loading-rate .hovertext")
    assert "samples/s" in page.locator("#figure-loading-rate .hovertext").first.text_content()
    assert said == []


def test_figures_follow_the_scheme_when_it_changes(open_page, few):
    page, said = open_page(few / "report.html", scheme="light")

    def colours():
        ink = page.evaluate("getComputedStyle(document.querySelector('#figure-memory-peaks .xtick text')).fill")
        return page.evaluate("getComputedStyle(document.body).backgroundColor"), ink

    light = colours()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('#figure-memory-peaks .xtick text')).fill != before",
        arg=light[1],
    )
    dark = colours()
    assert light[0] != dark[0]
    assert said == []


def test_a_narrow_screen_scrolls_in_one_direction_only(open_page, nasty_folder):
    page, said = open_page(nasty_folder / "report.html", scheme="dark", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert said == []


def test_no_control_of_a_figure_leads_to_a_service_elsewhere(open_page, few):
    page, said = open_page(few / "report.html")
    page.context.on("page", lambda other: said.append(f"opened {other.url}"))
    page.locator("#figure-memory-peaks").hover()
    controls = page.locator("#figure-memory-peaks .modebar-btn")
    titles = controls.evaluate_all("all => all.map(one => one.dataset.title)")
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
    for place in range(1, len(titles)):
        controls.nth(place).click()
    assert page.locator("a[href^=http], [class*=cloud]").count() == 0
    assert page.evaluate("[...document.querySelectorAll('.plot')].every(one => !one._context.plotlyServerURL)")
    assert said == []


def test_a_narrow_screen_shows_facts_and_the_plans_reasons_whole(open_page, folder, train_answer, plan_answer):
    save_answer(folder, replace(train_answer, checkpoint=f"/home/{'long/' * 30}checkpoint.pt"))
    told = {"target": "loss=0.12", "predicted_seconds": 7.2, "predicted_range": (5.8, 8.9)}
    save_answer(folder, replace(plan_answer, baseline_seconds=22.9, baseline_from="forecast", **told))
    write_page(folder)
    page, said = open_page(folder / "report.html", width=400)
    right = "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
    assert page.locator("#table-plan-settings td").evaluate_all(right) <= 400
    widths = "all => Math.max(...all.map(one => one.parentElement.scrollWidth))"
    assert page.locator("#table-plan-settings, .facts").evaluate_all(widths) <= 400 - 2 * 20
    narrowest = "all => Math.min(...all.map(one => one.getBoundingClientRect().width))"
    first_cells = page.locator("#table-plan-compared td:first-child")
    assert first_cells.evaluate_all(narrowest) >= 35, "time to target, a word a line"
    assert said == []


def test_on_paper_the_page_is_light_and_has_nothing_to_click(open_page, few):
    page, said = open_page(few / "report.html", scheme="dark")
    ink = "getComputedStyle(document.querySelector('#figure-memory-peaks .xtick text')).fill"
    dark = page.evaluate(ink)
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(f"before => {ink} != before", arg=dark)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert said == []


def test_a_browser_that_cannot_unpack_says_so_and_shows_the_numbers(browser, few):
    page, said = browser.new_page(), []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.add_init_script("delete window.DecompressionStream")
    page.goto((few / "report.html").as_uri())
    page.wait_for_selector("figure:has-text('too old to draw')")
    assert page.locator("figure table").count() >= 6
    assert said == []
    page.close()
