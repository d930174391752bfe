"""Networks that translate a sentence place by place, their loss and their accuracy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from legroom.job import Batch
from legroom.workloads.text.vocabulary import PAD

Network = Literal["encoder-decoder", "bidirectional"]
Cell = Literal["gru", "lstm", "rnn"]
CELLS: dict[Cell, Callable[..., nn.Module]] = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}


class OneHot(nn.Module):
    """Words as vectors of zeros with a one at the word's number."""

    def __init__(self, num_words: int) -> None:
        super().__init__()
        self.num_words = num_words

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*words.shape, self.num_words, device=words.device).scatter_(-1, words.unsqueeze(-1), 1.0)


class Attention(nn.Module):
    """Each told state beside the states read that are most like it: Luong et al. 2015 (arXiv:1508.04025), "dot"."""

    def forward(self, told: torch.Tensor, read: torch.Tensor, held: torch.Tensor | None) -> torch.Tensor:
        mask = None if held is None else held.unsqueeze(1)
        return torch.cat([told, nn.functional.scaled_dot_product_attention(told, read, read, mask)], -1)


class EncoderDecoder(nn.Module):
    """One cell reads the sentence; its last state, repeated to every place, is what the other tells from."""

    def __init__(self, num_inputs: int, hidden: int, num_layers: int, cell: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.encoder = cell(num_inputs, hidden, num_layers, batch_first=True)
        self.decoder = cell(hidden, hidden, num_layers, batch_first=True)

    def forward(self, inputs: torch.Tensor, held: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        read, _ = self.encoder(inputs)
        told, _ = self.decoder(_last(read, held).unsqueeze(1).expand_as(read).contiguous())
        return told, read


def _last(states: torch.Tensor, held: torch.Tensor | None) -> torch.Tensor:
    if held is None:
        return states[:, -1]
    last = held.sum(1).sub(1).clamp(min=0)
    return states.gather(1, last[:, None, None].expand(-1, 1, states.shape[2])).squeeze(1)


class Bidirectional(nn.Module):
    """One layer that reads forwards and backwards; each place tells the word of its own place."""

    def __init__(self, num_inputs: int, hidden: int, num_layers: int, cell: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.reader = cell(num_inputs, hidden, num_layers, batch_first=True, bidirectional=True)

    def forward(self, inputs: torch.Tensor, held: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        states, _ = self.reader(inputs)
        return states, states


BODIES: dict[Network, tuple[type[EncoderDecoder] | type[Bidirectional], int]] = {
    "encoder-decoder": (EncoderDecoder, 1),
    "bidirectional": (Bidirectional, 2),
}
"""Of each network the body, and its outputs in units of `hidden`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A network but for its size."""

    network: Network
    cell: Cell
    embedding: int
    """Units of a word's vector; 0 feeds words one-hot."""
    attention: bool
    masking: bool
    """Whether the last state is that of the last word, and attention leaves padding out."""
    num_sources: int
    num_targets: int


class Translator(nn.Module):
    """Words in, a recurrent body, scores of every target word at every place out."""

    def __init__(self, design: Design, hidden: int, num_layers: int) -> None:
        super().__init__()
        body, num_directions = BODIES[design.network]
        num_inputs, num_outputs = design.embedding or design.num_sources, hidden * num_directions
        self.input = _word_input(design)
        self.body = body(num_inputs, hidden, num_layers, CELLS[design.cell])
        self.attention = Attention() if design.attention else None
        self.masking = design.masking
        self.word = nn.Linear(num_outputs * (2 if design.attention else 1), design.num_targets)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        held = words != PAD if self.masking else None
        told, read = self.body(self.input(words), held)
        if self.attention is not None:
            told = self.attention(told, read, held)
        return self.word(told)  # type: ignore[no-any-return]


def _word_input(design: Design) -> nn.Module:
    return nn.Embedding(design.num_sources, design.embedding) if design.embedding else OneHot(design.num_sources)


def make_loss(*, masking: bool) -> Callable[[nn.Module, Batch], tuple[torch.Tensor, torch.Tensor | int]]:
    """Cross entropy over all places, or over those that hold a word, and how many they are."""

    def mean_loss(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | int]:
        source, target = batch
        scores = model(source).flatten(0, 1)
        if not masking:
            return nn.functional.cross_entropy(scores, target.flatten()), target.numel()
        return nn.functional.cross_entropy(scores, target.flatten(), ignore_index=PAD), (target != PAD).sum()

    return mean_loss


def make_score(*, masked: bool) -> Callable[[nn.Module, Batch], tuple[torch.Tensor, torch.Tensor | int]]:
    """Places told right, of all places or of those that hold a word."""

    def count_right(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | int]:
        source, target = batch
        right = model(source).argmax(-1) == target
        if not masked:
            return right.sum(), target.numel()
        held = target != PAD
        return (right & held).sum(), held.sum()

    return count_right
