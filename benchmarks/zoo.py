"""The models finders of batch sizes are compared on, as jobs by name: data cost nothing, only shapes matter."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import legroom

IMAGE_MODELS = (
    "resnet34",
    "resnet50",
    "resnet152",
    "densenet201",
    "alexnet",
    "vit_b_16",
    "efficientnet_b0",
    "convnext_tiny",
)
NUM_WORDS, NUM_LETTERS = 10_000, 29
MODELS = (*IMAGE_MODELS, "r3d_18", "word_lstm", "bigru", "ctc", "masked")


def job(model: str = "resnet50", optimizer: str = "sgd") -> legroom.Job:
    """One model of the comparison. model: its name; optimizer: sgd (momentum 0.9) or adamw."""
    if model not in MODELS or optimizer not in OPTIMIZERS:
        raise ValueError(f"model is one of {', '.join(MODELS)}; optimizer one of {', '.join(OPTIMIZERS)}")
    return legroom.Job(
        model=lambda: make_model(model),
        train_data=lambda: Repeated(make_sample(model)),
        valid_data=lambda: Repeated(make_sample(model)),
        loss=LOSSES.get(model, classify),
        optimizer=OPTIMIZERS[optimizer],
        baseline=legroom.Settings(batch_size=32, learning_rate=0.01),
    )


class Repeated(Dataset[Any]):
    """The same sample under every index."""

    def __init__(self, sample: Any, length: int = 1_000_000) -> None:
        self.sample, self.length = sample, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.sample


def make_sample(model: str) -> Any:
    """One sample of what the model reads."""
    words = torch.arange(81) % NUM_WORDS
    if model == "r3d_18":
        return torch.rand(3, 16, 112, 112), torch.tensor(1)
    if model in ("word_lstm", "masked"):
        return words[:80], words[1:]
    if model == "bigru":
        return words[:21], words[1:22]
    if model == "ctc":
        return torch.rand(400, 80), 1 + torch.arange(40) % (NUM_LETTERS - 1)
    return torch.rand(3, 224, 224), torch.tensor(1)


def make_model(model: str) -> nn.Module:
    """A fresh module of that name; torchvision is imported where it is the source."""
    own = {"word_lstm": WordLstm, "bigru": BiGru, "ctc": Speech, "masked": Masked}
    if model in own:
        return own[model]()
    from torchvision import models

    made = models.video.r3d_18() if model == "r3d_18" else getattr(models, model)(weights=None)
    return made  # type: ignore[no-any-return]


class WordLstm(nn.Module):
    """The medium language model of Zaremba et al. (2014): two layers of 650 units over words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(NUM_WORDS, 650)
        self.recur = nn.LSTM(650, 650, 2, batch_first=True)
        self.words = nn.Linear(650, NUM_WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.words(self.recur(self.embed(words))[0])  # type: ignore[no-any-return]


class BiGru(nn.Module):
    """A small translator word by word: sentences read forwards and backwards, one of 1,000 words at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(NUM_WORDS, 128)
        self.recur = nn.GRU(128, 128, 2, batch_first=True, bidirectional=True)
        self.words = nn.Linear(256, 1_000)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.words(self.recur(self.embed(words))[0])  # type: ignore[no-any-return]


class Speech(nn.Module):
    """Letters from frames of sound: a convolution that halves time, a recurrent layer, and CTC above."""

    def __init__(self) -> None:
        super().__init__()
        self.shorten = nn.Conv1d(80, 256, 5, stride=2, padding=2)
        self.recur = nn.GRU(256, 256, 2, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(512, NUM_LETTERS)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        heard = functional.relu(self.shorten(frames.transpose(1, 2))).transpose(1, 2)
        return self.letters(self.recur(heard)[0])  # type: ignore[no-any-return]


class Masked(nn.Module):
    """A masked language model that reads the masked places out by a boolean mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(NUM_WORDS, 256)
        layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
        self.encode = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.words = nn.Linear(256, NUM_WORDS)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.words(self.encode(self.embed(words))[mask])  # type: ignore[no-any-return]


def classify(model: nn.Module, batch: Any) -> torch.Tensor:
    """Mean cross-entropy of one class a sample."""
    return functional.cross_entropy(model(batch[0]), batch[1])


def predict_words(model: nn.Module, batch: Any) -> torch.Tensor:
    """Mean cross-entropy of one word a step."""
    logits = model(batch[0])
    return functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten() % logits.shape[-1])


def spell(model: nn.Module, batch: Any) -> torch.Tensor:
    """CTC of the letters."""
    letters = functional.log_softmax(model(batch[0]), -1).transpose(0, 1)
    times = torch.full((letters.shape[1],), letters.shape[0], dtype=torch.long)
    lengths = torch.full((letters.shape[1],), batch[1].shape[1], dtype=torch.long)
    return functional.ctc_loss(letters, batch[1], times, lengths)


def fill_masks(model: nn.Module, batch: Any) -> torch.Tensor:
    """Mean cross-entropy at every fifth word."""
    mask = batch[0] % 5 == 0
    return functional.cross_entropy(model(batch[0], mask), batch[1][mask])


LOSSES = {"word_lstm": predict_words, "bigru": predict_words, "ctc": spell, "masked": fill_masks}
OPTIMIZERS = {
    "sgd": lambda model, rate: torch.optim.SGD(model.parameters(), rate, momentum=0.9),
    "adamw": lambda model, rate: torch.optim.AdamW(model.parameters(), rate),
}
