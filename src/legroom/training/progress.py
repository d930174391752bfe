"""How far a run is: plain counters, which a checkpoint carries as they are."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Progress:
    """Counters of a run, earlier parts of a resumed one included."""

    step: int = 0
    """Updates made."""
    epoch: int = 0
    """Epochs ended."""
    position: int = 0
    """Batches of this epoch used."""
    num_samples: int = 0
    seconds: float = 0.0
    """Training and evaluating."""
    training_seconds: float = 0.0
    waited_seconds: float = 0.0
    """Of the training, waiting for batches."""
    loss_sum: float = 0.0
    num_losses: int = 0
    """Updates since the last evaluation, and the sum of their losses."""
    last_loss: float | None = None

    @property
    def wait_share(self) -> float:
        """Share of training time spent waiting for batches."""
        return self.waited_seconds / self.training_seconds if self.training_seconds else 0.0

    @property
    def samples_per_second(self) -> float:
        """While training."""
        return self.num_samples / max(self.training_seconds, 1e-9)

    def num_epochs(self, num_batches: int | None) -> float:
        """Epochs so far, the begun one by its share where its length is known."""
        return self.epoch + (self.position / num_batches if num_batches else 0.0)

    def take_train_loss(self) -> float | None:
        """Mean loss of the updates since this was last asked."""
        mean = self.loss_sum / self.num_losses if self.num_losses else None
        self.loss_sum, self.num_losses = 0.0, 0
        return mean
