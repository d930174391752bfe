"""Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) by the package tokenizers, an optional extra."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from legroom.errors import UsageError
from legroom.workloads.vocabulary import SPECIAL, Vocabulary

END = "</w>"
"""Ends the last piece of a word, so that pieces can be joined to words again."""


def learn_pieces(counts: Counter[str], num_merges: int, words: Iterable[str] = ()) -> Vocabulary:
    """Characters, then the most frequent neighbours joined, `num_merges` times.

    `words` are those to find codes for besides the counted ones; characters that were not counted are unknown.
    """
    learned = _learn(counts, num_merges)
    known = list(counts | Counter(words))
    encoded = learned.encode_batch(known, add_special_tokens=False)
    codes = {word: tuple(code.ids) for word, code in zip(known, encoded, strict=True)}
    return Vocabulary(codes, learned.get_vocab_size())


def _learn(counts: Counter[str], num_merges: int) -> Any:
    try:
        from tokenizers import Tokenizer, models, trainers
    except ModuleNotFoundError:
        raise UsageError(
            "Byte-pair encoding needs the package tokenizers. pip install tokenizers, or leave merges out"
        ) from None
    learned = Tokenizer(models.BPE(unk_token=SPECIAL[1], end_of_word_suffix=END))
    # Each character has a form within a word and one at its end; what goes beyond these is merges.
    num_letters = len({letter for word in counts for letter in word}) + len({word[-1] for word in counts})
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL) + num_letters + num_merges,
        special_tokens=list(SPECIAL),
        end_of_word_suffix=END,
        show_progress=False,
    )
    # A list a word: the package takes lists at once, and single words one by one.
    learned.train_from_iterator(([word] * times for word, times in counts.items()), trainer)
    return learned
