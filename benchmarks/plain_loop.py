"""A training loop as people write it, which knows nothing of legroom.

python benchmarks/plain_loop.py train JOB BATCH STEPS      epochs over a shuffled DataLoader
python benchmarks/plain_loop.py steps JOB BATCH SECONDS    steps on one batch that lies ready; prints samples/s
"""

import sys
import time

import plain_jobs
import torch
from torch.utils.data import DataLoader, default_collate

READ_STEPS = 100
"""Updates after which people print the loss."""


def train(name: str, batch_size: int, num_steps: int) -> None:
    """That many updates."""
    make, data = plain_jobs.JOBS[name]
    torch.manual_seed(0)
    model, loss = make(), plain_jobs.Stopwatch()
    optimizer, done = plain_jobs.optimizer(model, 1e-3), 0
    loader = DataLoader(data(), batch_size=batch_size, shuffle=True, drop_last=True)
    while done < num_steps:
        for batch in loader:
            optimizer.zero_grad()
            value = loss(model, batch)
            value.backward()
            optimizer.step()
            done += 1
            if done % READ_STEPS == 0:
                print(done, value.item())
            if done == num_steps:
                break


def steps(name: str, batch_size: int, seconds: float) -> None:
    """Samples a second of steps on one batch."""
    make, data = plain_jobs.JOBS[name]
    torch.manual_seed(0)
    model, loss, samples = make(), plain_jobs.Stopwatch(), data()
    optimizer = plain_jobs.optimizer(model, 1e-3)
    batch = default_collate([samples[index % plain_jobs.NUM_SAMPLES] for index in range(batch_size)])

    def step() -> None:
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()

    for _ in range(3):
        step()
    started, num = time.perf_counter(), 0
    while num < 3 or time.perf_counter() - started < seconds:
        step()
        num += 1
    print(num * batch_size / (time.perf_counter() - started))


if __name__ == "__main__":
    what, job, size, length = sys.argv[1:]
    if what == "train":
        train(job, int(size), int(length))
    else:
        steps(job, int(size), float(length))
