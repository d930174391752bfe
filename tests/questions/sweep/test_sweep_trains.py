"""A sweep in real processes: two at once, the one that cannot be trained marked, nothing repeated on resume."""

from pathlib import Path
from types import SimpleNamespace

import torch

from legroom import api
from legroom.logbook import read_lines
from legroom.questions.train.child import _times, _utilisation

JOB = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
import legroom

def loss(model, batch):
    if len(batch[0]) == 16:
        raise ValueError("sixteen are too many")
    return nn.functional.mse_loss(model(batch[0]), batch[1])

def data(num):
    x = torch.linspace(-1, 1, 2 * num).reshape(-1, 2)
    return TensorDataset(x, x.sum(1, keepdim=True))

def job():
    return legroom.Job(
        model=lambda: nn.Linear(2, 1),
        train_data=lambda: data(64),
        valid_data=lambda: data(24),
        loss=loss,
        optimizer=lambda model, rate: torch.optim.SGD(model.parameters(), rate),
        baseline=legroom.Settings(batch_size=8, num_epochs=3),
    )
"""


def test_trials_run_at_once_one_fails_and_none_is_repeated(tmp_path):
    path = Path(tmp_path / "job.py")
    path.write_text(JOB)
    words = {"device": "cpu", "batch_sizes": (8, 16), "rates": (0.1, 1e30), "together": 2}
    answer = api.sweep(f"{path}:job", **words, run=api.Run(out=tmp_path / "out"))
    points = {(point["batch_size"], point["learning_rate"]): point for point in answer.points}
    good, wild = points[8, 0.1], points[8, 1e30]
    assert good["loss"] < 1.0
    assert good["memory_bytes"] > 2**20
    assert 0 < good["utilisation"] <= 1
    assert (good["num_steps"], good["num_samples"]) == (24, 192)
    assert wild["stopped_because"] == "diverged"
    assert all("sixteen are too many" in points[16, rate]["failure"] for rate in (0.1, 1e30))
    before = len(read_lines(tmp_path / "out" / "logbook.jsonl")[1])
    again = api.sweep(f"{path}:job", **words, run=api.Run(out=tmp_path / "out", resume=True))
    assert again.points == answer.points
    assert len(read_lines(tmp_path / "out" / "logbook.jsonl")[1]) == before


def test_the_shortest_trial_has_a_utilisation():
    run = SimpleNamespace(trainer=SimpleNamespace(device=torch.device("cpu")))
    assert 0 < _utilisation(run, _times()) <= 1
