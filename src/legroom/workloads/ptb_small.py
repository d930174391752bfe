"""The small language model of Zaremba et al. 2014 on the Penn Treebank: 2 LSTMs of 200, no dropout."""

from typing import Literal

from legroom.job import Job, Settings
from legroom.workloads.text.penn_treebank import make_job

WINDOW = 20
LISTED = {
    "parameters": {"": 4_653_200},
    "sized_by": "hidden layers",
    "data": {"": "ptb"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(data: str = "", evaluate: Literal["valid", "test"] = "valid", hidden: int = 200, layers: int = 2) -> Job:
    """Penn Treebank, a word-level language model of 2 LSTMs of 200, judged by perplexity.

    data: folder of the ptb files (default LEGROOM_DATA), or synthetic. evaluate: valid or test, the part that judges.
    hidden: LSTM units. layers: stacked LSTMs.
    """
    return make_job(
        data,
        evaluate,
        (hidden, layers),
        window=WINDOW,
        dropout=0.0,
        spread=0.1,
        # Zaremba et al. 2014, section 4.1: rate 1, halved each epoch after the fourth, norm clipped at 5. Their loss is
        # summed over the window, ours is its mean: the gradient is 1/WINDOW of theirs, so the rate is WINDOW times and
        # the clip 1/WINDOW of theirs, and the updates are the same.
        baseline=Settings(
            batch_size=20,
            learning_rate=1.0 * WINDOW,
            clip_norm=5 / WINDOW,
            schedule="exponential:factor=0.5,every=1,after=4",
            num_epochs=13,
        ),
    )
