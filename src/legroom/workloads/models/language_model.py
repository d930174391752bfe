"""A language model whose recurrent state is carried from each batch to the next."""

from typing import Any

import torch
from torch import nn

from legroom.job import Batch

State = tuple[torch.Tensor, ...]
"""Of shape (layers, batch, units) each; an LSTM has two."""


class CarriedState:
    """What the network knew at the end of the last batch, cut off from the graph that made it.

    It also keeps what was known at that batch's beginning: an evaluation asks for the loss and then the score of the
    same batch, and the second reading must start where the first did.
    """

    def __init__(self) -> None:
        self.before: State | None = None
        self.after: State | None = None
        self.row: int | None = None

    def enter(self, words: torch.Tensor, first: bool, row: int) -> State | None:
        """The state to start this batch from; None, which is zeros, at the top and where the batch size changed."""
        state = self.before if row == self.row else self.after
        if first or (state is not None and state[0].shape[1] != words.shape[1]):
            state = None
        # A state read back from a checkpoint may lie on another device; elsewhere this does nothing.
        self.before = state and tuple(part.to(words.device) for part in state)
        self.row = row
        return self.before

    def leave(self, state: State) -> None:
        """Keep the state for the batch below."""
        self.after = tuple(part.detach() for part in state)


class LanguageModel(nn.Module):
    """Stacked LSTMs that tell the next word, with dropout between layers only (Zaremba et al. 2014).

    A `reader` of one's own takes the LSTMs' place: called as they are, and started as it was made.

    Training and evaluation carry a state each, so that an evaluation amid an epoch does not disturb it. The training
    state is part of `state_dict()`: a run resumed amid an epoch goes on as it would have.
    """

    def __init__(
        self,
        num_words: int,
        hidden: int,
        num_layers: int,
        *,
        dropout: float,
        spread: float,
        reader: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, hidden)
        self.reader = reader or nn.LSTM(hidden, hidden, num_layers, dropout=dropout if num_layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.word = nn.Linear(hidden, num_words)
        for part in (self.embedding, *(() if reader else (self.reader,)), self.word):
            for parameter in part.parameters():
                nn.init.uniform_(parameter, -spread, spread)
        self.carried = {True: CarriedState(), False: CarriedState()}
        """By whether the model is training."""

    def forward(self, words: torch.Tensor, first: bool, row: int) -> torch.Tensor:
        carried = self.carried[self.training]
        state = carried.enter(words, first, row)
        outputs, state = self.reader(self.dropout(self.embedding(words)), state)
        carried.leave(state)
        return self.word(self.dropout(outputs))  # type: ignore[no-any-return]

    def get_extra_state(self) -> dict[str, list[torch.Tensor]]:
        """The carried state of training; empty where there is none yet."""
        return {"state": list(self.carried[True].after or ())}

    def set_extra_state(self, state: Any) -> None:
        """Go on from the state, with the batch that comes next."""
        carried = self.carried[True] = CarriedState()
        if state["state"]:
            carried.leave(tuple(state["state"]))


def mean_loss(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """Mean of -log p over the words of the batch, and how many they are."""
    logits = model(batch["words"], batch["first"], batch["row"])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch["next"].flatten()), batch["next"].numel()


def total_loss(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """Sum of -log p over the words of the batch, and how many they are."""
    mean, count = mean_loss(model, batch)
    return mean * count, count
