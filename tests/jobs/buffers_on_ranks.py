"""A rank that trains with and without a broadcast of BatchNorm's buffers, on its own samples."""

import copy

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from legroom.questions.devices.child.delay import DelayedLink

NUM_STEPS = 5


def train(arguments, built, rank):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    found = {str(broadcasts): states(copy.deepcopy(model), rank.number, broadcasts) for broadcasts in (True, False)}
    return {**found, "delayed": states(model, rank.number, True, delay=0.001)}


def states(model, number, broadcasts, delay=0.0):
    """Weights and buffers after some steps."""
    wrapped = DistributedDataParallel(model, broadcast_buffers=broadcasts)
    DelayedLink(delay).slow_down(wrapped)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
    random = torch.Generator().manual_seed(1 + number)
    for _ in range(NUM_STEPS):
        wrapped(torch.randn(4, 8, generator=random)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: value.flatten().tolist() for name, value in model.state_dict().items()}
