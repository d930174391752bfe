"""The lines that a plan is told in for other libraries do what the plan says."""

import ast
import warnings

import pytest
import torch

from legroom.job import Settings
from legroom.questions.base import Recommendation
from legroom.questions.plan.code import NAMES, code_of, variables_text
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


class Watched:
    """What the lines need of a user, and what they did with it."""

    def __init__(self, num_samples):
        self.batches, self.rates = [], []
        self.words = {
            "model": torch.nn.Linear(2, 1),
            "dataset": torch.ones(num_samples, 2),
            "make_optimizer": self.make_optimizer,
            "compute_loss": self.compute_loss,
        }

    def make_optimizer(self, model, rate):
        optimizer = torch.optim.SGD(model.parameters(), rate)
        optimizer.register_step_pre_hook(lambda optimizer, *_: self.rates.append(optimizer.param_groups[0]["lr"]))
        return optimizer

    def compute_loss(self, model, batch):
        self.batches.append(len(batch))
        return model(batch).square().mean()


TRUTH = make_schedule("stable:cooldown=0.25", num_steps=20, steps_per_epoch=10, warmup_steps=5)
RATES = [0.25 * TRUTH(step) for step in range(20)]
"""Of the plan's 20 updates."""


def test_the_lines_for_pytorch_train_with_the_plans_batch_rates_passes_and_length(lines):
    watched = Watched(29)
    exec(lines, watched.words)
    assert watched.batches == [4] * 40
    assert watched.rates == pytest.approx(RATES)


def test_the_lines_for_accelerate_train_alike_though_an_epoch_ends_amid_an_update():
    pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState, GradientState

    watched = Watched(29)
    try:
        exec(code_of(PLAN, 20, 5)["accelerate"], watched.words)
    finally:  # they are shared by all of a process
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
    assert watched.batches == [4] * 40
    assert watched.rates == pytest.approx(RATES)


def test_the_lines_for_lightning_train_alike(tmp_path, monkeypatch):
    lightning = pytest.importorskip("lightning")
    watched = Watched(33)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(2, 1)

        def training_step(self, batch, index):
            return watched.compute_loss(self.net, batch)

    monkeypatch.chdir(tmp_path)
    quiet = "accelerator='cpu', logger=False, enable_checkpointing=False, enable_progress_bar=False, "
    quiet += "enable_model_summary=False, "
    space = {**watched.words, "module": Module()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so small a job needs no workers, it does not know
        exec(code_of(PLAN, 20, 5)["lightning"].replace("Trainer(", f"Trainer({quiet}"), space)
        Module.configure_optimizers = space["configure_optimizers"]
        space["trainer"].fit(space["module"], space["loader"])
    assert watched.batches == [4] * 40
    assert watched.rates == pytest.approx(RATES)


KEPT = {"accumulation_steps": 1, "warmup_steps": 0, "schedule": "constant", "clip_norm": None, "num_epochs": 3}
"""Of settings that stay as many jobs have them."""


@pytest.mark.parametrize("schedule", ["constant", "own"])
def test_a_constant_rate_or_ones_own_schedule_has_no_scheduler_in_the_lines(schedule):
    for name, lines in code_of({**PLAN, **KEPT, "schedule": schedule}, None, None).items():
        for nonsense in ("scheduler =", "scheduler.step", "factor", "inf", "if True", "islice(batches, 1 "):
            assert nonsense not in lines, name
        assert ("your own schedule" in lines) == (schedule == "own")


def test_the_lines_of_settings_that_stay_train_by_them():
    watched = Watched(29)
    exec(code_of({**PLAN, **KEPT}, None, None)["pytorch"], watched.words)
    assert (watched.batches, watched.rates) == ([4] * 21, [0.25] * 21)
    several = Watched(29)
    exec(code_of({**PLAN, **KEPT, "accumulation_steps": 2}, None, None)["pytorch"], several.words)
    assert (several.batches, several.rates) == ([4] * 20, [0.25] * 10)


def test_a_climb_to_a_constant_rate_is_the_schedule_of_legroom():
    watched = Watched(29)
    exec(code_of({**PLAN, **KEPT, "warmup_steps": 5}, 20, None)["pytorch"], watched.words)
    truth = make_schedule("constant", num_steps=20, steps_per_epoch=10, warmup_steps=5)
    assert watched.rates == pytest.approx([0.25 * truth(step) for step in range(20)])


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


def test_every_library_is_told_which_variables_to_start_with():
    found = [
        Recommendation(name=name, value=value, range=None, because="planted")
        for name, value in (("environment", "OMP_NUM_THREADS=1"), ("allocator", "expandable"))
    ]
    text = variables_text(found)
    assert text == "OMP_NUM_THREADS=1 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert variables_text([]) == ""
    for name, lines in code_of(PLAN, 20, 5, variables=text).items():
        assert lines.startswith(f"# start with: {text} python this_file.py\n"), name
    several = code_of({**PLAN, "num_devices": 4}, 20, 5, variables=text)
    assert several["pytorch"].startswith(f"# start with: {text} torchrun --nproc-per-node 4 this_file.py\n")
    assert several["lightning"].startswith(f"# start with: {text} python this_file.py\n")


@pytest.mark.parametrize("schedule", ["stable:cooldown=0.25", "stable:cooldown=0.25,shape=sqrt"])
def test_transformers_takes_the_arguments_and_makes_the_same_schedule_of_them(tmp_path, monkeypatch, schedule):
    pytest.importorskip("transformers")
    from transformers.optimization import get_scheduler

    monkeypatch.chdir(tmp_path)
    words = {}
    lines = code_of({**PLAN, "schedule": schedule, "num_workers": 2}, 20, 5)["transformers"]
    exec(lines.replace("seed=3", "seed=3, use_cpu=True"), words)
    found = words["arguments"]
    assert (found.max_steps, found.per_device_train_batch_size, found.gradient_accumulation_steps) == (20, 4, 2)
    assert (found.dataloader_num_workers, found.dataloader_persistent_workers) == (2, True), "as everywhere else"
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), 1.0)
    named = (found.lr_scheduler_type, optimizer, found.warmup_steps, found.max_steps, found.lr_scheduler_kwargs)
    factor = get_scheduler(*named).lr_lambdas[0]
    truth = make_schedule(schedule, num_steps=20, steps_per_epoch=10, warmup_steps=5)
    assert [factor(step) for step in range(21)] == pytest.approx([truth(step) for step in range(21)])


def test_transformers_is_told_to_take_the_optimizer_that_the_rate_was_found_for():
    lines = code_of(PLAN, 20, 5, optimizer="SGD")["transformers"]
    assert "for your SGD" in lines
    assert "optimizers=(make_optimizer(model, 0.25), None)" in lines


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
