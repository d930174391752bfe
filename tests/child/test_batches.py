"""Batches of a data set: one without samples is refused with what they are needed for."""

import pytest
import torch
from torch.utils.data import TensorDataset

from legroom.child.batches import BatchSource
from legroom.errors import JobRaised
from legroom.workloads.digits import job


@pytest.mark.parametrize(("name", "use"), [("train_data", "train"), ("valid_data", "validate")])
def test_an_empty_data_set_is_refused_with_what_its_samples_are_for(name, use):
    with pytest.raises(JobRaised, match=rf"{name}\(\) returned an empty data set.* one sample to {use} on"):
        BatchSource(job(), TensorDataset(torch.randn(0, 8)), name)
