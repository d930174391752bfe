"""What a run leaves behind as it goes: JSON lines, and TensorBoard's files where wanted."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from legroom.errors import UsageError
from legroom.files import writing
from legroom.texts import json_text

FILE_NAME, BOARD_NAME = "metrics.jsonl", "tensorboard"


class Metrics:
    """Appends one JSON object a line. `size` goes into checkpoints: a resumed run cuts the file back to it."""

    def __init__(self, folder: Path | None, *, size: int = 0, step: int = 0, tensorboard: bool = False) -> None:
        self.path = folder / FILE_NAME if folder else None
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
