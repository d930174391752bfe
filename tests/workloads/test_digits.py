"""Both models of the digits learn them, at any size they are resized to."""

import pytest
import torch
from torch.utils.data import DataLoader

from legroom.training.evaluation import evaluate
from legroom.training.step import TrainingStep
from legroom.workloads import digits

CPU = torch.device("cpu")


@pytest.mark.parametrize(("model", "least"), [("lstm", 0.7), ("cnn", 0.9)])
def test_a_few_epochs_of_the_baseline_leave_chance_far_behind(model, least):
    torch.manual_seed(0)
    job = digits.job(model=model)
    network = job.model()
    step = TrainingStep(job, network, job.optimizer(network, job.baseline.learning_rate), job.baseline, CPU)
    for _ in range(4):
        for batch in DataLoader(job.train_data(), job.baseline.batch_size, shuffle=True, collate_fn=job.collate):
            step([batch])
    batches = DataLoader(job.valid_data(), 64, collate_fn=job.collate)
    assert evaluate(job, network, batches, CPU, "fp32").score > least


@pytest.mark.parametrize("model", ["lstm", "cnn"])
@pytest.mark.parametrize("dimension", ["width", "depth"])
def test_a_larger_size_has_more_parameters_and_runs(model, dimension):
    job = digits.job(hidden=16, model=model)
    smaller, larger = (job.resize[dimension](size)() for size in (2, 4))
    assert larger(torch.zeros(3, 8, 8)).shape == (3, 10)
    assert _num_parameters(larger) > _num_parameters(smaller)


def test_training_and_validation_share_no_place_and_stay_the_same():
    job = digits.job()
    assert len(job.train_data()) + len(job.valid_data()) == 1797
    assert torch.equal(job.valid_data().tensors[1], job.valid_data().tensors[1])


def test_chance_is_the_share_of_the_most_frequent_digit():
    job = digits.job()
    labels = job.valid_data().tensors[1]
    assert job.score.chance == labels.bincount().max() / len(labels)


def _num_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())
