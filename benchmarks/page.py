"""How long a report takes to open in a browser: its text, its controls, its first figure and all of them.

    python benchmarks/page.py legroom-out/digits/report.html [--visits 10]

Each visit is one of headless chromium with an empty profile. Seconds count from the start of the navigation, as the
page itself reads them (`performance.now`): when its text has been laid out, when the controls have shown their first
results, when the first figure and when the last one is drawn.
"""

import argparse
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

WATCH = """
window.seen = {};
const see = (name) => { if (!(name in seen)) seen[name] = performance.now() / 1000; };
new PerformanceObserver((list) => { seen.text = list.getEntries()[0].startTime / 1000; })
  .observe({ type: "paint", buffered: true });
new MutationObserver(() => {
  if (document.querySelector("#result-time")?.textContent) see("controls");
  if (document.querySelector(".plot .main-svg")) see("first figure");
  if (document.documentElement.dataset.drawn) see("all figures");
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def visit(browser: Browser, path: Path, width: int) -> dict[str, float]:
    """Seconds of one visit, by what was there."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=120_000)
    page.wait_for_function("() => 'all figures' in window.seen")
    found: dict[str, float] = page.evaluate("seen")
    context.close()
    return found


def main() -> None:
    """Visit the page, then print the middle and the range of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--visits", type=int, default=10)
    parser.add_argument("--width", type=int, default=1000)
    words = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        visits = [visit(browser, words.page, words.width) for _ in range(words.visits)]
        version = browser.version
        browser.close()
    print(
        f"{words.page.name}, {words.page.stat().st_size / 2**20:.2f} MiB, chromium {version}, {words.visits} visits\n"
    )
    print("| there | middle | range |\n| --- | --- | --- |")
    for name in ("text", "controls", "first figure", "all figures"):
        seconds = sorted(one[name] for one in visits if name in one)
        if seconds:
            print(f"| {name} | {statistics.median(seconds):.2f} s | {seconds[0]:.2f} to {seconds[-1]:.2f} s |")


if __name__ == "__main__":
    main()
