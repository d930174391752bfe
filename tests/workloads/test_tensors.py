"""A batch fetched at once equals the same samples collated one by one."""

import torch
from torch.utils.data import DataLoader, Subset, default_collate

from legroom.workloads.readers.tensors import Tensors, collate

DATA = Tensors(torch.arange(60).reshape(10, 2, 3), torch.arange(10))


def test_fetched_at_once_equals_one_by_one():
    at_once = collate(DATA.__getitems__([7, 0, 3]))
    one_by_one = collate([DATA[7], DATA[0], DATA[3]])
    assert all(torch.equal(a, b) for a, b in zip(at_once, one_by_one, strict=True))
    assert torch.equal(one_by_one[0], default_collate([DATA[7][0], DATA[0][0], DATA[3][0]]))


def test_a_loader_gives_every_sample_once_and_the_rest_last():
    for dataset in (DATA, Subset(DATA, range(10))):
        batches = list(DataLoader(dataset, batch_size=4, collate_fn=collate))
        assert [len(labels) for _, labels in batches] == [4, 4, 2]
        assert torch.equal(torch.cat([images for images, _ in batches]), DATA.tensors[0])
