"""Rate over a run for each batch size, as LEGW scales it: multi-step and polynomial decay.

    python benchmarks/rate_curves.py OUT.html

Batch sizes, rates, warm-up and epochs are those of table 6 of Y. You's talk, Large-Batch Training for LSTM and Beyond
(2018). The talk gives no boundaries for its multi-step curves; 30, 60 and 80 epochs with a tenth each are Goyal's.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from legroom.laws.rate_scaling import Recipe, scale
from legroom.training.schedule_text import make_schedule

NUM_SAMPLES, NUM_EPOCHS = 1_281_167, 90
BASE = Recipe(batch_size=1024, learning_rate=2**2.5, warmup_epochs=0.3125)
BATCH_SIZES = (1024, 2048, 4096, 8192, 16384, 32768)
SCHEDULES = ("multistep:epochs=30+60+80,factor=0.1", "polynomial:power=2", "polynomial-after-warmup:power=2")
NUM_POINTS = 900
COLOURS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#d8b400")


@dataclass(frozen=True)
class Curve:
    """The rate of one batch size over its run."""

    schedule: str
    batch_size: int
    epochs: list[float]
    rates: list[float]


def curves(batch_sizes: Sequence[int] = BATCH_SIZES, texts: Sequence[str] = SCHEDULES) -> list[Curve]:
    """A curve for each schedule and batch size."""
    return [curve(text, batch_size) for text in texts for batch_size in batch_sizes]


def curve(text: str, batch_size: int) -> Curve:
    """Rates at evenly spaced steps, and at each side of the end of warm-up."""
    recipe = scale("legw", BASE, batch_size)
    per_epoch = NUM_SAMPLES // batch_size
    num_steps, num_warmup = NUM_EPOCHS * per_epoch, recipe.warmup_steps(per_epoch)
    rate = make_schedule(
        text,
        num_steps=num_steps,
        steps_per_epoch=per_epoch,
        warmup_steps=num_warmup,
        warmup_start=recipe.warmup_start,
        peak=recipe.learning_rate,
    )
    steps = {round(index * (num_steps - 1) / NUM_POINTS) for index in range(NUM_POINTS + 1)}
    steps |= {max(0, num_warmup - 1), num_warmup}
    ordered = sorted(steps)
    return Curve(text, batch_size, [step / per_epoch for step in ordered], [rate(step) for step in ordered])


def figure(drawn: Sequence[Curve]) -> go.Figure:
    """One panel a schedule, one line a batch size."""
    texts = list(dict.fromkeys(each.schedule for each in drawn))
    sizes = sorted({each.batch_size for each in drawn})
    page = make_subplots(rows=len(texts), cols=1, subplot_titles=texts, shared_xaxes=True, vertical_spacing=0.06)
    for each in drawn:
        row = texts.index(each.schedule) + 1
        line = go.Scatter(
            x=each.epochs,
            y=each.rates,
            mode="lines",
            name=f"B = {each.batch_size:,}",
            legendgroup=str(each.batch_size),
            showlegend=row == 1,
            line={"color": COLOURS[sizes.index(each.batch_size) % len(COLOURS)]},
        )
        page.add_trace(line, row=row, col=1)
    page.update_yaxes(title_text="rate")
    page.update_xaxes(title_text="epoch", row=len(texts), col=1)
    page.update_layout(title="Learning rate by batch size (LEGW)", height=360 * len(texts), template="plotly_white")
    return page


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the page to write")
    out = parser.parse_args().out
    drawn = curves()
    out.write_text(figure(drawn).to_html(include_plotlyjs=True), encoding="utf-8")
    for each in drawn:
        print(f"{each.schedule:40s} B={each.batch_size:6d} highest rate {max(each.rates):6.3f}")
    print(f"Wrote {out}")


if __name__ == "__main__":
    main()
