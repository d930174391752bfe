"""The character-level language model of a study of model size: one recurrent highway layer, 10 deep."""

import math
import platform
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import nn

from legroom.job import Job, Settings
from legroom.workloads.models.language_model import LanguageModel
from legroom.workloads.models.recurrent_highway import RecurrentHighway
from legroom.workloads.readers.cache import Prepared, load_or_make
from legroom.workloads.readers.files import SYNTHETIC, own_file, read_content
from legroom.workloads.text.lines import decode
from legroom.workloads.text.running_text import JUDGED_SHARE, OWN_TEXT, language_model_job, make_text, number_characters

LEFT_OUT = {"test", "tests", "idlelib", "site-packages", "lib2to3", "pydoc_data", "encodings", "turtledemo"}
"""Folders of the standard library that are tests, tables, or not on every machine."""
JUDGED_IN = round(1 / JUDGED_SHARE)
NUM_SYNTHETIC = (8_000_000, 400_000)
NUM_SYNTHETIC_CODES = 100
SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for text: random characters of which every second often follows from the one "
    "before, so scores say nothing about text."
)
SPREAD = 0.05
LISTED = {
    "parameters": {"data=synthetic": 5_879_908},
    "sized_by": "data text hidden depth min_frequency",
    "data": {"": "standard-library"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "",
    text: str = "",
    hidden: int = 512,
    depth: int = 10,
    sequence: int = 150,
    min_frequency: int = 10,
) -> Job:
    """Python's standard library or any text, by character: a recurrent highway network, judged by bits a character.

    data: synthetic, or nothing. text: a file of your own, whose end judges. hidden: units. depth: of the recurrence.
    sequence: characters of an update. min_frequency: times a character must occur to be known.
    """
    prepared = make_text(NUM_SYNTHETIC, NUM_SYNTHETIC_CODES) if data == SYNTHETIC else read(text, min_frequency)
    num_codes = prepared.facts["num_codes"]

    def sized(hidden: int, depth: int) -> Callable[[], nn.Module]:
        return lambda: LanguageModel(
            num_codes, hidden, 1, dropout=0.0, spread=SPREAD, reader=RecurrentHighway(hidden, hidden, depth)
        )

    return language_model_job(
        lambda part: torch.from_numpy(prepared.arrays[part]),
        sized,
        (hidden, depth),
        window=sequence,
        solver=torch.optim.Adam,
        finish=to_bits,
        chance=to_bits(prepared.facts["unigram_loss"]),
        # Ardalani et al. 2018, section 1 and 2: batch, solver and rate, depth and sequence; they vary the width.
        # The clip is that of Zilly et al. 2017.
        baseline=Settings(batch_size=128, learning_rate=1e-3, clip_norm=10.0, num_epochs=10),
        notes=list(_notes(data, text, prepared)),
    )


def to_bits(loss: float) -> float:
    """Nats as bits.

    >>> to_bits(math.log(8))
    3.0
    """
    return loss / math.log(2)


def read(text: str, min_frequency: int) -> Prepared:
    """The user's text, or the standard library, as numbers; made once."""
    if text:
        path = own_file(text, OWN_TEXT)
        pieces = _cut_end(decode(read_content(path), path))
    else:
        path = Path(sysconfig.get_paths()["stdlib"])
        pieces = read_library(path)
    contents = [piece.encode("utf-8", "surrogatepass") for piece in pieces]
    options = {"kind": "characters", "min_frequency": min_frequency}
    return load_or_make(contents, options, lambda: number_characters(*pieces, min_frequency, str(path)))


def _cut_end(text: str) -> tuple[str, str]:
    place = round(len(text) * (1 - JUDGED_SHARE))
    return text[:place], text[place:]


def read_library(root: Path) -> tuple[str, str]:
    """The sources, those that train and every twentieth file, which judges."""
    paths = sorted(path for path in root.rglob("*.py") if not LEFT_OUT & set(path.relative_to(root).parts))
    texts = [path.read_text("utf-8", "replace") for path in paths]
    judging = texts[JUDGED_IN // 2 :: JUDGED_IN]
    training = [text for place, text in enumerate(texts) if place % JUDGED_IN != JUDGED_IN // 2]
    return "".join(training), "".join(judging)


def _notes(data: str, text: str, prepared: Prepared) -> Iterable[str]:
    if data == SYNTHETIC:
        yield SYNTHETIC_NOTE
    elif not text:
        length = len(prepared.arrays["train"])
        yield f"The text is the standard library of Python {platform.python_version()}: {length:,} characters to train."
