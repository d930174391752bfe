"""The lines that a plan is told in for other libraries do what the plan says."""

import ast

import pytest
import torch

from legroom.job import Settings
from legroom.questions.plan.code import NAMES, code_of
from legroom.training.schedule_text import make_schedule

PLAN = {
    "batch_size": 4,
    "accumulation_steps": 2,
    "num_workers": 0,
    "prefetch_factor": 2,
    "learning_rate": 0.25,
    "schedule": "stable:cooldown=0.25",
    "warmup_steps": 5,
    "clip_norm": 1.0,
    "num_epochs": 1,
    "num_devices": 1,
    "precision": "fp32",
    "seed": 3,
}
VARIED = [
    {},
    {"accumulation_steps": 1, "warmup_steps": 0, "clip_norm": None, "num_workers": 3},
    {"schedule": "constant", "precision": "bf16"},
    {"schedule": "own", "warmup_steps": 0, "precision": "fp16"},
    {"schedule": "stable:cooldown=0.25,shape=sqrt"},
    {"num_devices": 4, "num_workers": 2},
]


@pytest.mark.parametrize("changed", VARIED)
@pytest.mark.parametrize("length", [20, None])
def test_every_line_is_python(changed, length):
    made = code_of({**PLAN, **changed}, length, 5 if length and "schedule" not in changed else None)
    assert set(made) == set(NAMES)
    for text in made.values():
        ast.parse(text)


@pytest.mark.parametrize("schedule", ["stable:cooldown=0.25", "stable:cooldown=0.25,shape=sqrt"])
def test_the_schedule_is_that_of_legroom(schedule):
    text = code_of({**PLAN, "schedule": schedule}, 20, 5)["pytorch"]
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = {}
    exec(compile(tree, "plan", "exec"), found)
    truth = make_schedule(schedule, num_steps=20, steps_per_epoch=10, warmup_steps=5)
    assert [found["factor"](step) for step in range(21)] == pytest.approx([truth(step) for step in range(21)])


@pytest.fixture(params=[1, 2])
def lines(request, monkeypatch):
    """Those for PyTorch on one device, and on several, of which one process alone is started."""
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0"), ("RANK", "0"), ("WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    yield code_of({**PLAN, "num_devices": request.param}, 20, 5)["pytorch"]
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_the_lines_for_pytorch_train_with_the_plans_batch_rate_passes_and_length(lines):
    seen, rates = [], []

    def make_optimizer(model, rate):
        rates.append(rate)
        return torch.optim.SGD(model.parameters(), rate)

    def compute_loss(model, batch):
        seen.append(len(batch))
        return model(batch).square().mean()

    model = torch.nn.Linear(2, 1)
    words = {
        "model": model,
        "dataset": torch.ones(33, 2),
        "make_optimizer": make_optimizer,
        "compute_loss": compute_loss,
    }
    exec(lines, words)
    assert rates == [0.25]
    assert seen == [4] * 40
    assert words["optimizer"].param_groups[0]["lr"] == 0.0


def test_every_library_is_told_of_several_devices():
    made = code_of({**PLAN, "num_devices": 4}, 20, 5)
    for name, words in (
        ("pytorch", "torchrun --nproc-per-node 4"),
        ("lightning", 'devices=4, strategy="ddp"'),
        ("transformers", "torchrun --nproc-per-node 4"),
        ("accelerate", "accelerate launch --num_processes 4"),
    ):
        assert words in made[name]
        assert words not in code_of(PLAN, 20, 5)[name]


def test_transformers_takes_the_arguments(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    words = {}
    exec(code_of(PLAN, 20, 5)["transformers"].replace("seed=3", "seed=3, use_cpu=True"), words)
    found = words["arguments"]
    assert (found.max_steps, found.per_device_train_batch_size, found.gradient_accumulation_steps) == (20, 4, 2)
    assert found.lr_scheduler_kwargs == {"num_decay_steps": 5, "decay_type": "linear"}


def test_the_lines_for_pytorch_train_with_layout_and_fused_optimizer():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 2), torch.nn.Flatten())
    words = {
        "model": model,
        "dataset": torch.ones(9, 3, 4, 4),
        "make_optimizer": lambda model, rate: torch.optim.AdamW(model.parameters(), rate),
        "compute_loss": lambda model, batch: model(batch).square().mean(),
    }
    exec(code_of({**PLAN, "channels_last": True, "fused": True}, 3, 1)["pytorch"], words)
    assert words["optimizer"].param_groups[0]["fused"]
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_settings_name_all_that_the_lines_need():
    assert set(PLAN) <= set(Settings.__dataclass_fields__)
