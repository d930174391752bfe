"""Speech spelled letter by letter: the network of Deep Speech 2, small enough to train on spoken digits."""

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import torch
from torch import nn

from legroom.job import Batch, Job, Score, Settings
from legroom.training.data.buckets import BucketBatches, bucket_loader
from legroom.training.data.padding import bucket_borders
from legroom.workloads.models.deep_speech import DeepSpeech, count_errors, ctc_loss
from legroom.workloads.readers.cache import Prepared
from legroom.workloads.readers.files import SYNTHETIC
from legroom.workloads.readers.recordings import DIGITS, Recording, find_recordings
from legroom.workloads.readers.speech_features import LETTERS, NUM_BANDS, Sounds, gather, pad, prepare, spell, split
from legroom.workloads.text.chance import constant_error_rate

NUM_SYNTHETIC = 1_500
NUM_BUCKETS = 6
SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for spoken digits: a pattern of pitches for each letter under noise, so scores "
    "say nothing about speech."
)
LISTED = {
    "parameters": {"": 1_905_149},
    "sized_by": "hidden layers",
    "data": {"": "spoken-digits"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "",
    recordings: str = "spoken-digits",
    held_out: Literal["take", "speaker"] = "take",
    hidden: int = 128,
    layers: int = 4,
    batches: Literal["padded", "bucketed"] = "padded",
) -> Job:
    """Speech: two convolutions, four bidirectional LSTMs and CTC over log-mel features, judged by character error rate.

    data: folder of the recordings (default LEGROOM_DATA), or synthetic. recordings: the folder in it, of spoken digits
    or in LibriSpeech's layout. held_out: take (as published) or speaker. hidden: LSTM units, four times the channels.
    layers: stacked LSTMs. batches: padded to the longest of any, or bucketed by length.
    """
    prepared = make_recordings() if data == SYNTHETIC else prepare(find_recordings(data, recordings))
    train, valid = split(prepared, held_out)

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: DeepSpeech(NUM_BANDS, len(LETTERS), hidden, num_layers)

    return Job(
        model=sized(hidden, layers),
        train_data=lambda: train,
        valid_data=lambda: valid,
        collate=pad,
        sample_size=lambda sounds, index: float(sounds.lengths[index]),
        loader=load_bucketed if batches == "bucketed" else None,
        loss=ctc_loss,
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        # Who says nothing errs in every letter, but one spelling for all gets some right.
        score=Score(count_errors, goal="min", chance=constant_error_rate(valid.truths(), len(LETTERS))),
        resize={"width": lambda width: sized(width, layers), "depth": lambda depth: sized(hidden, depth)},
        # Shape: Deep Speech 2, as Ardalani, Hestness et al. resize it; the rest is our own choice: docs/workloads.md.
        baseline=Settings(batch_size=32, learning_rate=1e-3, schedule="one-cycle", clip_norm=5.0, num_epochs=40),
        notes=tuple(_notes(data, prepared)),
    )


def load_bucketed(sounds: Sounds, settings: Settings) -> Iterable[Batch]:
    """Batches of like length; an evaluation reads the longest first and needs no full batch."""
    size = settings.batch_size if sounds.train else min(settings.batch_size, len(sounds))
    borders = bucket_borders(sounds.lengths, NUM_BUCKETS)
    order = BucketBatches(sounds.lengths, borders, size, order="shuffled" if sounds.train else "long-first")
    return bucket_loader(sounds, order, pad, settings)


def _notes(data: str, prepared: Prepared) -> Iterable[str]:
    if data == SYNTHETIC:
        yield SYNTHETIC_NOTE
    if num_skipped := prepared.facts["num_skipped"]:
        yield f"{num_skipped:,} recordings cannot be read and are left out."


def make_recordings() -> Prepared:
    """A stand-in of the spoken digits' lengths: each letter six to eighteen rows of its own pattern under noise."""
    rng = np.random.default_rng(0)
    patterns = rng.standard_normal((1 + len(LETTERS), NUM_BANDS))
    features, letters, kept = [], [], []
    for number in range(NUM_SYNTHETIC):
        spelled = spell(DIGITS[number % 10])
        rows = patterns[np.repeat(spelled, rng.integers(6, 19, len(spelled)))]
        features.append((rows + rng.standard_normal(rows.shape)).astype(np.float16))
        letters.append(spelled)
        speaker, is_test = f"speaker {number % 6}", number // 10 % 8 == 0
        kept.append(Recording(name=str(number), words="", speaker=speaker, published_as_test=is_test, read=lambda: b""))
    return gather(features, letters, kept, num_skipped=0)
