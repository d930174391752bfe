"""A small GPT-2 made from its config, sentences of unequal length and the collator for language models."""

import random

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import DataCollatorForLanguageModeling, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import legroom
from legroom.adapters.transformers import from_transformers

WORDS = ["[PAD]", "[UNK]", "the", "a", "cat", "dog", "bird", "sees", "hears", "chases", "and", "small", "old", "grey"]


def make_tokenizer():
    words = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def make_model():
    config = GPT2Config(
        vocab_size=len(WORDS), n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config)


def make_data(num_samples, seed):
    dice = random.Random(seed)
    tokenizer = make_tokenizer()
    texts = [" ".join(dice.choices(WORDS[2:], k=dice.randint(3, 40))) for _ in range(num_samples)]
    # The text stays beside its tokens, as it does after datasets.map(); the Trainer drops it, and so must legroom.
    return [{"text": text, **tokenizer(text)} for text in texts]


def job() -> legroom.Job:
    return from_transformers(
        make_model,
        train_data=lambda: make_data(200, seed=0),
        valid_data=lambda: make_data(40, seed=1),
        collate=DataCollatorForLanguageModeling(make_tokenizer(), mlm=False),
        arguments={"per_device_train_batch_size": 4, "learning_rate": 1e-3, "num_train_epochs": 2, "weight_decay": 0.1},
        sample_size=lambda dataset, index: len(dataset[index]["input_ids"]),
    )
