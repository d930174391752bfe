"""What a run tells as it goes: its losses, read seldom, as JSON lines, and in TensorBoard's files where wanted."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from legroom.errors import UsageError
from legroom.files import writing
from legroom.texts import json_text
from legroom.training.progress import Curve
from legroom.training.trainer import Beat, Trainer

LOOK_SECONDS = 1.0
"""How often losses are read from the device, lines written and progress told: each look waits for the device once."""
LOOK_STEPS = 2_000
METRICS_NAME, BOARD_NAME = "metrics.jsonl", "tensorboard"


class Recorder:
    """Gathers the losses of a run on the device, and at each look reads them, writes them down and tells them."""

    def __init__(
        self, trainer: Trainer, write: Callable[[Mapping[str, Any]], None], beat: Beat, max_seconds: float | None
    ) -> None:
        self.trainer, self.write, self.beat, self.max_seconds = trainer, write, beat, max_seconds
        self.ranks = trainer.ranks
        self.losses: list[Any] = []
        """Of the updates since the last look: still on the device, or numbers where that is the host."""
        self.curve = Curve()
        self.utilisations: list[float] = []
        """Of the device, at each look since this process began."""

    def add(self, loss: torch.Tensor) -> None:
        """Keep the loss of an update; on the host as a number, so that no tensor of a step stays in the heap."""
        self.losses.append(loss.item() if self.trainer.device.type == "cpu" else loss)

    def start(self) -> None:
        """Start the clocks where an earlier part of the run stopped them."""
        read_utilisation(self.trainer.device)  # the first reading covers no time
        self.started = self.trainer.clock() - self.trainer.at.seconds
        self.looked_at, self.looked = self.trainer.clock(), replace(self.trainer.at)

    def seconds(self) -> float:
        """Since training began."""
        return self.ranks.first(self.trainer.clock() - self.started)

    def is_due(self) -> bool:
        """Whether the last update was long after the last look."""
        return self.trainer.since - self.looked_at >= LOOK_SECONDS or len(self.losses) >= LOOK_STEPS

    def look(self, score: float | None) -> bool:
        """Read the losses since the last look, write them down, tell progress; False where one is not finite."""
        if not self.losses:
            return True
        on_host = self.trainer.device.type == "cpu"
        losses = torch.tensor(self.losses, dtype=torch.float32) if on_host else torch.stack(self.losses).float()
        at, values, self.losses = self.trainer.at, self.ranks.total(losses).tolist(), []
        bad = next((place for place, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            at.step -= len(values) - bad - 1
            return False
        at.last_loss = values[-1]
        at.loss_sum += sum(values)
        at.num_losses += len(values)
        self._write_down(values, score)
        return True

    def _write_down(self, values: list[float], score: float | None) -> None:
        at, before = self.trainer.at, self.looked
        self.looked_at, self.looked = self.trainer.clock(), replace(at)
        at.seconds = self.ranks.first(self.looked_at - self.started)
        self.curve.extend(values, at.step, at.seconds, self.trainer.rate)
        utilisation = read_utilisation(self.trainer.device)
        self.utilisations += [] if utilisation is None else [utilisation]
        seconds = max(at.training_seconds - before.training_seconds, 1e-9)
        samples_per_second = (at.num_samples - before.num_samples) / seconds
        self.write(
            {
                "step": at.step,
                "epoch": at.epoch,
                "seconds": at.seconds,
                "loss": values[-1],
                "rate": self.trainer.rate(),
                "samples_per_second": samples_per_second,
                "data_wait": (at.waited_seconds - before.waited_seconds) / seconds,
                "utilisation": utilisation,
                "losses": values,
            }
        )
        self._tell(samples_per_second, score)

    def _tell(self, samples_per_second: float, score: float | None) -> None:
        at, length = self.trainer.at, self.trainer.length
        epochs = "" if length.in_steps else f"/{length.num_epochs}"
        parts = [f"epoch {at.epoch + 1}{epochs}", f"loss {at.last_loss:.4g}"]
        parts += [] if score is None else [f"score {score:.4g}"]
        parts += [f"rate {self.trainer.rate():.3g}", f"{samples_per_second:,.0f} samples/s"]
        shares = [at.step / length.num_steps] if length.num_steps else []
        shares += [at.seconds / self.max_seconds] if self.max_seconds else []
        self.beat(", ".join(parts), min(1.0, max(shares, default=0.0)))


class Metrics:
    """Appends one JSON object a line. `size` goes into checkpoints: a resumed run cuts the file back to it."""

    def __init__(self, folder: Path | None, *, size: int = 0, step: int = 0, tensorboard: bool = False) -> None:
        self.path = folder / METRICS_NAME if folder else None
        self.size = size
        if self.path is not None:
            with writing(self.path), self.path.open("ab") as file:
                self.size = min(size, file.tell())  # somebody may have removed the file; truncate would fill it up
                file.truncate(self.size)
        self.board: Any = _open_board(folder, step) if tensorboard and folder else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Append the line; numbers of a step also go to TensorBoard."""
        if self.path is None:
            return
        content = json_text(line).encode() + b"\n"
        with writing(self.path), self.path.open("ab") as file:
            file.write(content)
        self.size += len(content)
        if self.board is not None:
            for name, value in line.items():
                if isinstance(value, float):
                    self.board.add_scalar(name, value, line["step"])

    def flush(self) -> None:
        """Have it on disk, so that a checkpoint never knows more than the file."""
        if self.path is not None:
            with writing(self.path), self.path.open("ab") as file:
                os.fsync(file.fileno())
        if self.board is not None:
            self.board.flush()


def _open_board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError("--tensorboard needs the package tensorboard: pip install tensorboard") from None
    return SummaryWriter(str(folder / BOARD_NAME), purge_step=step or None)


def read_utilisation(device: torch.device) -> float | None:
    """Share of the last moment in which the device worked, as NVML or the system counts it; None where nobody does."""
    if device.type == "cuda":
        try:
            return torch.cuda.utilization(device) / 100
        except Exception:  # no NVML, or none that this container may ask
            return None
    import psutil

    return float(psutil.cpu_percent(None)) / 100
