"""legroom finds the room a PyTorch training run has. Importing it does not import torch."""

__version__ = "0.1.0"

from legroom.api import jobs, loading, machine, memory, plan, speed, train
from legroom.job import Job, Score, Settings
from legroom.job_address import JobAddress, load_job

__all__ = [
    "Job",
    "JobAddress",
    "Score",
    "Settings",
    "__version__",
    "jobs",
    "load_job",
    "loading",
    "machine",
    "memory",
    "plan",
    "speed",
    "train",
]
