"""The child's side of a check: what proves a plan trains as the plan does."""

import torch
from torch import nn

import legroom
from legroom.child.built_job import BuiltJob
from legroom.job_address import address_of
from legroom.questions.memory.child.peaks import measure_peaks
from legroom.questions.memory.records import StepPeaks

made = []


def job():
    def optimizer(model, rate):
        made.append(torch.optim.SGD(model.parameters(), rate))
        return made[-1]

    return legroom.Job(
        model=lambda: nn.Linear(2, 1),
        train_data=lambda: torch.ones(64, 2),
        loss=lambda model, batch: model(batch).square().mean(),
        optimizer=optimizer,
    )


def test_a_proof_on_a_host_trains_with_the_options_asked_for():
    asked = StepPeaks(device="cpu", batch_size=4, num_steps=2, num_workers=0, proof=True, options={"fused": True})
    assert measure_peaks(asked, BuiltJob(address_of(job))).outcome == "measured"
    assert made[-1].param_groups[0]["fused"]
