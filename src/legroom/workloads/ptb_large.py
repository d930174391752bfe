"""The large language model of Zaremba et al. 2014 on the Penn Treebank: 2 LSTMs of 1500, dropout 0.65."""

from typing import Literal

from legroom.job import Job, Settings
from legroom.workloads.text.penn_treebank import make_job

WINDOW = 35
LISTED = {
    "parameters": {"": 66_034_000},
    "sized_by": "hidden layers",
    "data": {"": "ptb"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(data: str = "", evaluate: Literal["valid", "test"] = "valid", hidden: int = 1500, layers: int = 2) -> Job:
    """Penn Treebank, a word-level language model of 2 LSTMs of 1500 with dropout, judged by perplexity.

    data: folder of the ptb files (default LEGROOM_DATA), or synthetic. evaluate: valid or test, the part that judges.
    hidden: LSTM units. layers: stacked LSTMs.
    """
    return make_job(
        data,
        evaluate,
        (hidden, layers),
        window=WINDOW,
        dropout=0.65,
        spread=0.04,
        # Zaremba et al. 2014, section 4.1: rate 1, divided by 1.15 each epoch after the fourteenth, norm clipped at 10.
        # Rate and clip for a mean over the window, as in ptb_small.
        baseline=Settings(
            batch_size=20,
            learning_rate=1.0 * WINDOW,
            clip_norm=10 / WINDOW,
            schedule=f"exponential:factor={1 / 1.15:.6f},every=1,after=14",
            num_epochs=55,
        ),
    )
