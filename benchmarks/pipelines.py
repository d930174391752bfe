"""Twelve ways to load data, as jobs: `pipelines.py:job --with pipeline=jpeg`.

Each has another bottleneck: decoding, storage, Python, processes, memory, latency, threads. The model is a small
perceptron on what a sample holds, so that the step is neither free nor the only cost.
"""

import io
import itertools
import math
import os
import random
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from legroom import Job, Settings

WIDTH = 768
NUM_SAMPLES = 4096


class Made(Dataset):
    """Samples made one by one by a function of the index."""

    def __init__(self, make: Callable[[int], torch.Tensor], num_samples: int = NUM_SAMPLES) -> None:
        self.make, self.num_samples = make, num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.make(index), index % 10


class Stream(IterableDataset):
    """The same as a stream, split among workers."""

    def __init__(self, make: Callable[[int], torch.Tensor]) -> None:
        self.make = make

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        info = get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, NUM_SAMPLES, stride):
            yield self.make(index), index % 10


class Rows(Dataset):
    """Tensors in memory, handed over a batch at a time."""

    def __init__(self) -> None:
        self.inputs, self.labels = torch.randn(NUM_SAMPLES, WIDTH), torch.arange(NUM_SAMPLES) % 10

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.labels[index]

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[indices], self.labels[indices]


def jpeg() -> Dataset:
    """Photographs decoded and scaled; generated ones where no data lie under LEGROOM_DATA."""
    try:
        from PIL import Image
    except ImportError:
        raise SystemExit("The jpeg pipeline needs Pillow: pip install pillow") from None
    folder = Path(os.environ.get("LEGROOM_DATA", "data"))
    files = sorted(folder.glob("caltech101-10/*/*.jpg")) or _drawn()

    def make(index: int) -> torch.Tensor:
        with Image.open(files[index % len(files)]) as image:
            scaled = image.convert("RGB").resize((96, 96))
        return torch.from_numpy(np.array(scaled)).permute(2, 0, 1) / 255

    return Made(make)


def _drawn() -> list[Path]:
    from PIL import Image

    folder = Path(tempfile.gettempdir()) / "legroom-drawn-jpegs"
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    for number in range(256):
        path = folder / f"{number}.jpg"
        if not path.exists():
            small = Image.fromarray(generator.integers(0, 255, (16, 24, 3), dtype=np.uint8))
            buffer = io.BytesIO()
            small.resize((300, 200)).save(buffer, "JPEG", quality=90)
            path.write_bytes(buffer.getvalue())
    return sorted(folder.glob("*.jpg"))


def packed() -> Dataset:
    """zlib-heavy: a sample is unpacked from compressed bytes."""
    noise = np.random.default_rng(0).integers(0, 64, 200_000, dtype=np.uint8)
    parts = [zlib.compress(np.roll(noise, shift).tobytes(), 6) for shift in range(16)]

    def make(index: int) -> torch.Tensor:
        content = np.frombuffer(zlib.decompress(parts[index % len(parts)]), dtype=np.uint8)
        return torch.from_numpy(content[:WIDTH].astype(np.float32) / 64)

    return Made(make)


def waiting() -> Dataset:
    """Slow storage: every sample takes 3 ms in which no core works."""

    def make(index: int) -> torch.Tensor:
        time.sleep(0.003)
        return torch.full((WIDTH,), index / NUM_SAMPLES)

    return Made(make)


def python() -> Dataset:
    """A loop in Python for every sample."""
    return Made(_counted)


def _counted(index: int) -> torch.Tensor:
    total = 0.0
    for number in range(12_000):
        total += (number ^ index) & 15
    return torch.full((WIDTH,), total / 1e6)


def tiny() -> Dataset:
    """Samples of eight numbers: collating costs more than reading."""
    rows = torch.randn(NUM_SAMPLES * 4, 8)
    return Made(lambda index: rows[index], NUM_SAMPLES * 4)


def huge() -> Dataset:
    """Samples of 3 MiB: moving them between processes costs more than making them."""
    base = torch.randint(0, 255, (3, 512, 512), dtype=torch.uint8)
    return Made(lambda index: base.float() / (1 + index % 7), 512)


def tailed() -> Dataset:
    """Latency with a heavy tail: 1 in 100 samples takes 40 ms, the others half of one."""

    def make(index: int) -> torch.Tensor:
        time.sleep(0.04 if random.Random(index).random() < 0.01 else 0.0005)
        return torch.full((WIDTH,), index / NUM_SAMPLES)

    return Made(make)


def blas() -> Dataset:
    """A transform by matrix products, for which numpy takes as many threads as there are cores."""
    matrix = np.random.default_rng(0).standard_normal((320, 320)).astype(np.float32)

    def make(index: int) -> torch.Tensor:
        product = matrix @ (matrix * (index % 5)) @ matrix
        return torch.from_numpy(product.reshape(-1)[:WIDTH] / 1e4)

    return Made(make)


def mapped() -> Dataset:
    """Rows of a memory-mapped file."""
    path = Path(tempfile.gettempdir()) / "legroom-mapped.npy"
    if not path.exists():
        made = np.lib.format.open_memmap(path, "w+", np.float32, (NUM_SAMPLES, 16_384))
        made[:] = np.random.default_rng(0).standard_normal(16_384, dtype=np.float32)
        made.flush()
    rows = np.load(path, mmap_mode="r")
    return Made(lambda index: torch.from_numpy(np.tanh(rows[index])))


def stream() -> IterableDataset:
    """An iterable data set with work in Python."""
    return Stream(_counted)


def uneven() -> Dataset:
    """Sequences of 20 to 2,000 steps, padded to the longest of their batch."""

    def make(index: int) -> torch.Tensor:
        length = int(20 * 100 ** random.Random(index).random())
        return torch.tensor([math.sin(step * index) for step in range(length)])

    return Made(make)


def memory() -> Dataset:
    """Everything in memory, a batch in one lookup."""
    return Rows()


PIPELINES: dict[str, tuple[Callable[[], Any], int]] = {
    "jpeg": (jpeg, 32),
    "zlib": (packed, 32),
    "sleep": (waiting, 32),
    "python": (python, 32),
    "tiny": (tiny, 256),
    "huge": (huge, 8),
    "tail": (tailed, 32),
    "blas": (blas, 32),
    "mapped": (mapped, 32),
    "iterable": (stream, 32),
    "uneven": (uneven, 32),
    "memory": (memory, 64),
}


class Net(nn.Module):
    """A perceptron on the first numbers of a sample."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (WIDTH, 1024, 1024, 10)
        layers = [part for pair in itertools.pairwise(sizes) for part in (nn.Linear(*pair), nn.ReLU())]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        flat = inputs.flatten(1)[:, :WIDTH]
        return self.layers(nn.functional.pad(flat, (0, WIDTH - flat.shape[1])))


def collate(samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples padded to the longest; a batch made at once as it is."""
    if isinstance(samples, tuple):
        return samples
    inputs = [sample for sample, _ in samples]
    labels = torch.tensor([label for _, label in samples])
    if all(one.shape == inputs[0].shape for one in inputs):
        return torch.stack(inputs), labels
    return nn.utils.rnn.pad_sequence(inputs, batch_first=True), labels


def job(pipeline: str = "jpeg") -> Job:
    """The job of that pipeline."""
    make, batch_size = PIPELINES[pipeline]
    return Job(
        model=Net,
        train_data=make,
        loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        collate=collate,
        num_samples=NUM_SAMPLES if pipeline == "iterable" else None,
        baseline=Settings(batch_size=batch_size, learning_rate=0.001),
    )
