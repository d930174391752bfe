"""A Transformers model with its tokenizer, collator and TrainingArguments, made a job by one call.

    pip install transformers
    legroom memory examples/transformers_job.py --device cpu --memory 1GiB

The model is made from a config and the tokenizer from a few words, so that nothing is downloaded; with your own, write
AutoModelForSequenceClassification.from_pretrained(...) and AutoTokenizer.from_pretrained(...) in their places.
"""

import random

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import legroom
from legroom.adapters.transformers import from_transformers

WORDS = ["[PAD]", "[UNK]", "good", "fine", "great", "bad", "poor", "awful", "film", "book", "plot", "was", "the", "and"]
GOOD = {"good", "fine", "great"}


def make_tokenizer():
    words = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def make_model():
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=128,
    )
    return BertForSequenceClassification(config)


def make_reviews(num_samples, seed):
    dice = random.Random(seed)
    tokenizer = make_tokenizer()
    reviews = [dice.choices(WORDS[2:], k=dice.randint(5, 100)) for _ in range(num_samples)]
    labels = [int(sum(word in GOOD for word in review) * 4 > len(review)) for review in reviews]
    return [{**tokenizer(" ".join(review)), "label": label} for review, label in zip(reviews, labels, strict=True)]


def count_correct(model, batch):
    labels = batch["labels"]
    guesses = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.argmax(-1)
    return (guesses == labels).sum(), len(labels)


def job() -> legroom.Job:
    return from_transformers(
        make_model,
        train_data=lambda: make_reviews(1_000, seed=0),
        valid_data=lambda: make_reviews(200, seed=1),
        tokenizer=make_tokenizer(),  # pads each batch to its longest review; pass collate= for another way
        # A TrainingArguments will do as well; training_arguments(settings) gives you tomorrow's.
        arguments={
            "per_device_train_batch_size": 16,
            "learning_rate": 3e-4,
            "num_train_epochs": 2,
            "weight_decay": 0.01,
            "warmup_steps": 0.1,
        },
        # Lengths differ much, and memory follows the longest: this finds it without looking at every review.
        sample_size=lambda dataset, index: len(dataset[index]["input_ids"]),
        score=legroom.Score(count_correct, goal="max"),
    )
