"""The smallest job: which batch fits into 1 GiB?

legroom memory examples/plain.py --device cpu --memory 1GiB
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import legroom

# legroom asks for functions, not objects: it builds everything anew for each measurement, in a process of its own,
# so nothing of yours is ever changed and a crash costs one measurement.


def make_model():
    # No device here: legroom moves the model to the one it measures.
    return nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))


def make_data(num_samples, seed):
    # Random pictures stand in for yours: memory and speed depend on shapes only.
    random = torch.Generator().manual_seed(seed)
    images = torch.rand(num_samples, 784, generator=random)
    return TensorDataset(images, (images[:, :10]).argmax(1))


def loss(model, batch):
    # A mean over the batch. Return (mean, count) instead where batches weigh differently, as with tokens.
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)


def count_correct(model, batch):
    # Sums and counts, not means, so that a short last batch weighs what it should.
    images, labels = batch
    return (model(images).argmax(1) == labels).sum(), len(labels)


def job() -> legroom.Job:
    return legroom.Job(
        model=make_model,
        train_data=lambda: make_data(20_000, seed=0),
        valid_data=lambda: make_data(2_000, seed=1),
        loss=loss,
        # The learning rate is legroom's to choose; everything else about the optimizer is yours.
        optimizer=lambda model, learning_rate: torch.optim.SGD(model.parameters(), learning_rate, momentum=0.9),
        score=legroom.Score(count_correct, goal="max"),
        # What you run today, so that answers can be compared with it.
        baseline=legroom.Settings(batch_size=64, learning_rate=0.05, num_epochs=5),
    )
