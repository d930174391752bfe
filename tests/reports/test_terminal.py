"""Tables in a terminal show all of their words, however narrow it is."""

import io

from legroom.reports.terminal import Grid, PlainConsole


def test_a_narrow_terminal_cuts_no_word_off():
    out = io.StringIO()
    grid = Grid("setting", "plan", "because")
    grid.add_row("schedule", "stable:cooldown=0.167", "the last 34 updates cool down, as in every trial")
    PlainConsole(file=out, width=40).print(grid)
    assert "…" not in out.getvalue()
    assert "167" in out.getvalue()
