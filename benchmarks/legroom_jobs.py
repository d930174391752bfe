"""The jobs of plain_jobs.py as legroom knows them."""

import plain_jobs

import legroom


def job(name: str = "cnn") -> legroom.Job:
    """One of them. name: which."""
    make, data = plain_jobs.JOBS[name]
    return legroom.Job(
        model=make,
        train_data=data,
        loss=plain_jobs.Stopwatch(),
        optimizer=plain_jobs.optimizer,
        baseline=legroom.Settings(batch_size=64, learning_rate=1e-3, num_workers=0),
    )
