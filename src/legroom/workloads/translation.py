"""Translation by recurrent networks, as in a study of batch size on GPUs of 2019."""

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import nn

from legroom.errors import UsageError
from legroom.job import Batch, Job, Score, Settings
from legroom.training.data.buckets import BucketBatches, Order, bucket_loader
from legroom.training.data.padding import padded_lengths
from legroom.workloads.models.translator import Design, Translator, make_loss, make_score
from legroom.workloads.readers.files import SYNTHETIC
from legroom.workloads.readers.tensors import collate
from legroom.workloads.text.chance import chance_accuracy
from legroom.workloads.text.pairs import Corpus, Pairs, Pipeline, find_pairs, make_corpus, make_pairs, prepare_pairs
from legroom.workloads.text.vocabulary import Cut

SYNTHETIC_NOTE = (
    "The data is a synthetic stand-in for sentence pairs: random words of an invented language, neighbours swapped, "
    "so scores say nothing about translation."
)
Batches = Literal["padded", "bucketed", "places"]
LISTED = {
    "parameters": {"data=synthetic": 252_618, "data=synthetic network=bidirectional": 306_890},
    "sized_by": "data pairs source target network cell hidden layers embedding attention tokens min_frequency "
    "common_limit merges",
    "data": {"": "small-vocab", "pairs=tatoeba": "tatoeba", "pairs=europarl": "europarl"},
}
"""For `legroom jobs`, which reads it without importing: see `Workload`."""


def job(
    data: str = "",
    pairs: Literal["small-vocab", "tatoeba", "europarl"] = "small-vocab",
    source: str = "",
    target: str = "",
    network: Literal["encoder-decoder", "bidirectional"] = "encoder-decoder",
    cell: Literal["gru", "lstm", "rnn"] = "gru",
    hidden: int = 128,
    layers: int = 1,
    embedding: int = 0,
    attention: bool = False,
    masking: bool = False,
    accuracy: Literal["auto", "unmasked", "masked"] = "auto",
    tokens: Literal["words", "marks", "spaces"] = "words",
    max_length: int = 100,
    min_frequency: int = 1,
    common_limit: int = 0,
    merges: int = 0,
    batches: Literal["padded", "bucketed", "places"] = "padded",
    buckets: int = 8,
    order: Literal["shuffled", "short-first", "long-first"] = "shuffled",
) -> Job:
    """English to French, place by place: a GRU encoder and decoder, or one bidirectional layer; judged by accuracy.

    data: folder of the pairs (default LEGROOM_DATA), or synthetic. pairs: small-vocab, tatoeba or europarl.
    source: a file of your own, tab-separated, or parallel to target. network: encoder-decoder or bidirectional.
    cell: gru, lstm or rnn. hidden: its units. layers: stacked cells. embedding: units of a word's vector, 0 for
    one-hot. attention, masking: true or false. accuracy: unmasked counts padding, masked does not; auto: as the loss.
    tokens: words, marks or spaces. max_length: words of a sentence. min_frequency, common_limit: times a word must and
    may occur. merges: of byte-pair encoding, 0 for none. batches: padded to the longest, bucketed, or places: bucketed
    with as many places in each. buckets: how many. order: shuffled, short-first or long-first.
    """
    pipeline = Pipeline(
        tokens=tokens,
        max_length=max_length,
        cut=Cut(min_frequency=min_frequency, common_limit=common_limit),
        num_merges=merges,
    )
    corpus = read_corpus(data, (pairs, source, target), pipeline, 1 if batches == "padded" else buckets)
    design = Design(
        network=network,
        cell=cell,
        embedding=embedding,
        attention=attention,
        masking=masking,
        num_sources=corpus.num_sources,
        num_targets=corpus.num_targets,
    )
    masked = accuracy == "masked" or (accuracy == "auto" and (masking or batches != "padded"))

    def sized(hidden: int, num_layers: int) -> Callable[[], nn.Module]:
        return lambda: Translator(design, hidden, num_layers)

    return Job(
        model=sized(hidden, layers),
        train_data=lambda: corpus.train,
        valid_data=lambda: corpus.valid,
        collate=collate,
        loader=None if batches == "padded" else make_loader(batches, order),
        loss=make_loss(masking=masking),
        optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate),
        score=Score(make_score(masked=masked), chance=chance_accuracy(corpus.train, corpus.valid, masked=masked)),
        resize={"width": lambda width: sized(width, layers), "depth": lambda depth: sized(hidden, depth)},
        # Hooda, Venkatesh and Srinivasan 2019: the smallest batch of their grid, and the rate they chose.
        # As many epochs as took the encoder-decoder to 95 %: validation/2026-11-15-h200-training.
        baseline=Settings(batch_size=512, learning_rate=3e-3, num_epochs=200),
        notes=tuple(_notes(data, corpus)),
    )


def read_corpus(data: str, words: tuple[str, str, str], pipeline: Pipeline, num_buckets: int) -> Corpus:
    """The pairs that the options name: a published set, and files of the user's own instead."""
    if num_buckets < 1 or pipeline.max_length < 1 or pipeline.num_merges < 0:
        raise UsageError("buckets and max_length must be at least 1, merges at least 0")
    synthetic = data == SYNTHETIC
    prepared = make_pairs(pipeline) if synthetic else prepare_pairs(find_pairs(data, *words), pipeline)
    return make_corpus(prepared, num_buckets)


def make_loader(batches: Batches, order: Order) -> Callable[[Pairs, Settings], Iterable[Batch]]:
    """Bucketed batches; an evaluation reads the longest sentences first and needs no full batch."""

    def load(dataset: Pairs, settings: Settings) -> Iterable[Batch]:
        train, size = dataset.train, settings.batch_size
        drawn = BucketBatches(
            dataset.lengths,
            dataset.borders,
            size if train else min(size, len(dataset)),
            by_places=batches == "places",
            order=order if train else "long-first",
        )
        return bucket_loader(dataset, drawn, collate, settings)

    return load


def _notes(data: str, corpus: Corpus) -> Iterable[str]:
    if data == SYNTHETIC:
        yield SYNTHETIC_NOTE
    num_places = padded_lengths(corpus.train.lengths, corpus.borders).sum()
    share = 1 - len(corpus.train.target.flat) / num_places
    several = f"{len(corpus.borders)} buckets" if len(corpus.borders) > 1 else "all padded alike"
    yield f"{share:.0%} of the target places are padding ({several}, up to {corpus.longest} words)."
    if corpus.num_left_out:
        yield f"{corpus.num_left_out:,} pairs are left out: longer than max_length, or empty on one side."
