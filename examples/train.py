"""Train to a target, then use the best weights in code of your own.

legroom train examples/train.py --target score=0.95     and, after Ctrl-C or a crash, the same with --resume
python examples/train.py                                the same from Python
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom


def make_model():
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))


def make_data(num_samples, seed):
    # Points of a square, and whether they lie in a circle.
    random = torch.Generator().manual_seed(seed)
    points = 2 * torch.rand(num_samples, 2, generator=random) - 1
    return TensorDataset(points, (points.norm(dim=1) < 0.8).long())


def loss(model, batch):
    points, labels = batch
    return nn.functional.cross_entropy(model(points), labels)


def count_correct(model, batch):
    points, labels = batch
    return (model(points).argmax(1) == labels).sum(), len(labels)


def job() -> legroom.Job:
    return legroom.Job(
        model=make_model,
        train_data=lambda: make_data(4_096, seed=0),
        valid_data=lambda: make_data(1_024, seed=1),
        loss=loss,
        optimizer=lambda model, learning_rate: torch.optim.Adam(model.parameters(), learning_rate),
        score=legroom.Score(count_correct, goal="max"),
        baseline=legroom.Settings(batch_size=64, learning_rate=0.01, schedule="cosine", num_epochs=10),
    )


if __name__ == "__main__":
    from pathlib import Path

    from legroom import api

    answer = api.train(f"{__file__}:job", target="score=0.95")
    print(f"{answer.stopped_because} after {answer.num_steps} updates, score {answer.final_score:.3f}")
    best = torch.load(Path(answer.checkpoint).with_name("best.pt"), weights_only=True)
    model = make_model()
    model.load_state_dict(best["model"])
    centre, corner = model(torch.tensor([[0.0, 0.0], [1.0, 1.0]])).argmax(1).tolist()
    print(f"weights of update {best['step']}: centre {centre}, corner {corner}")
