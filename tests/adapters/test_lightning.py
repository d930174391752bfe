"""A LightningModule made a job trains as its own code says, whichever of Lightning's two packages it comes from."""

import importlib
import inspect
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset, WeightedRandomSampler

from legroom import Settings
from legroom.adapters.lightning import from_lightning, trainer_arguments
from legroom.errors import JobRaised, UsageError
from legroom.training.evaluation import evaluate
from legroom.training.step import TrainingStep

CPU = torch.device("cpu")


@pytest.fixture(params=["pytorch_lightning", "lightning.pytorch"])
def pl(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


@pytest.fixture
def one():
    """One of the packages, for what does not depend on which."""
    return importlib.import_module("pytorch_lightning")


def rows(num_rows=48):
    random = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(num_rows, 4, generator=random), torch.randn(num_rows, 1, generator=random))


def line(package, **methods):
    """A class of a linear model whose methods are replaced by those given."""

    class Line(package.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch, batch_idx):
            loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
            self.log("train_loss", loss, on_epoch=True, prog_bar=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    return type("Line", (Line,), methods)


def data(package, **methods):
    class Rows(package.LightningDataModule):
        def setup(self, stage):
            assert stage == "fit"
            self.rows = rows()

        def train_dataloader(self):
            return DataLoader(self.rows, batch_size=6, shuffle=True, num_workers=2, prefetch_factor=3, collate_fn=keep)

        def val_dataloader(self):
            return DataLoader(self.rows, batch_size=6, collate_fn=keep)

    return type("Rows", (Rows,), methods)


def keep(samples):
    return torch.utils.data.default_collate(samples)


def first_batch(num_rows=8):
    return tuple(rows().tensors[part][:num_rows] for part in range(2))


def optimizer_of(job, rate=0.5):
    return job.optimizer(job.model(), rate)


# --- the loss and the update -----------------------------------------------------------------------------------------


def test_three_updates_equal_a_plain_loop(pl):
    job = from_lightning(line(pl), data=data(pl))
    model = job.model()
    step = TrainingStep(job, model, job.optimizer(model, 0.1), job.baseline, CPU)
    torch.manual_seed(0)
    plain = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for inputs, targets in DataLoader(rows(), batch_size=16):
        step([(inputs, targets)])
        optimizer.zero_grad()
        nn.functional.mse_loss(plain(inputs), targets).backward()
        optimizer.step()
    assert torch.equal(model.layer.weight, plain.weight)


def test_updates_equal_those_of_a_trainer(one):
    module = line(one)()
    trainer = one.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accumulate_grad_batches=2, gradient_clip_val=0.5,
    )  # fmt: skip
    loader = DataLoader(rows(), batch_size=8)
    with warnings.catch_warnings(action="ignore"):  # it advises more workers and smaller logging steps
        trainer.fit(module, loader)
    arguments = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5}
    job = from_lightning(line(one), train_data=lambda: loader, arguments=arguments)
    model, batches = job.model(), list(loader)
    step = TrainingStep(job, model, job.optimizer(model, job.baseline.learning_rate), job.baseline, CPU)
    for index in range(0, len(batches), 2):
        step(batches[index : index + 2])
    torch.testing.assert_close(model.layer.weight, module.layer.weight.cpu(), atol=1e-6, rtol=0)


def returns_dict(self, batch, batch_idx):
    return {"loss": self.layer(batch[0]).mean(), "other": 1}


def takes_batch_only(self, batch):
    return self.layer(batch[0]).mean()


def takes_anything(self, *args, **kwargs):
    return self.layer(args[0][0]).mean()


@pytest.mark.parametrize("training_step", [returns_dict, takes_batch_only, takes_anything])
def test_loss_of_any_form_is_understood(one, training_step):
    job = from_lightning(line(one, training_step=training_step), train_data=rows)
    model = job.model()
    assert torch.equal(job.loss(model, first_batch()), model.layer(first_batch()[0]).mean())


def test_training_step_without_loss_is_refused(one):
    job = from_lightning(line(one, training_step=lambda self, batch, batch_idx: None), train_data=rows)
    with pytest.raises(JobRaised, match="gives no loss"):
        job.loss(job.model(), first_batch())


def test_batch_index_moves_on(one):
    seen = []

    def training_step(self, batch, batch_idx):
        seen.append(batch_idx)
        return self.layer(batch[0]).mean()

    job = from_lightning(line(one, training_step=training_step), train_data=rows)
    model = job.model()
    for _ in range(3):
        job.loss(model, first_batch())
    job.loss(job.model(), first_batch())
    assert seen == [0, 1, 2, 0]


def test_evaluation_uses_validation_step_where_it_returns_a_loss(one):
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("val_loss", 1.0)
        return torch.tensor(7.0)

    job = from_lightning(line(one, validation_step=validation_step), data=data(one))
    assert evaluate(job, job.model(), [first_batch()], CPU, "fp32").loss == 7.0


def test_evaluation_uses_training_step_where_validation_step_only_logs(one):
    def validation_step(self, batch, batch_idx):
        self.log("val_loss", 1.0)

    job = from_lightning(line(one, validation_step=validation_step), data=data(one))
    model = job.model()
    expected = nn.functional.mse_loss(model.layer(first_batch()[0]), first_batch()[1]).item()
    assert evaluate(job, model, [first_batch()], CPU, "fp32").loss == pytest.approx(expected)


# --- logging and the absent Trainer ----------------------------------------------------------------------------------


def test_nested_modules_log_and_use_loggers_in_silence(pl):
    def training_step(self, batch, batch_idx):
        self.log_dict({"a": 1.0, "b": 2.0})
        self.logger.experiment.add_image("picture", batch[0])
        return self.inner.training_step(batch, batch_idx)

    def configure_model(self):
        self.inner = line(pl)()

    job = from_lightning(line(pl, training_step=training_step, configure_model=configure_model), train_data=rows)
    assert torch.isfinite(job.loss(job.model(), first_batch()))


def test_schedules_may_ask_how_long_the_run_is(one):
    seen = []

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        seen.append((self.trainer.estimated_stepping_batches, self.trainer.max_epochs))
        return [optimizer], [torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=seen[0][0])]

    arguments = {"max_epochs": 3, "accumulate_grad_batches": 3}
    from_lightning(line(one, configure_optimizers=configure_optimizers), data=data(one), arguments=arguments)
    assert seen == [(9, 3)]  # 48 rows in batches of 6 are 8; of 3 each, 3 updates; 3 epochs


def test_what_the_stand_in_does_not_know_is_said(one):
    job = from_lightning(line(one), train_data=rows)
    trainer = job.model().trainer
    assert not hasattr(trainer, "checkpoint_callback")
    with pytest.raises(AttributeError, match=r"without a Trainer, so there is no trainer\.strategy"):
        _ = trainer.strategy


# --- optimizers ------------------------------------------------------------------------------------------------------


def sgd(self):
    return torch.optim.SGD(self.parameters(), lr=0.1)


FORMS = {
    "optimizer": lambda self: sgd(self),
    "list": lambda self: [sgd(self)],
    "dict": lambda self: {"optimizer": sgd(self)},
    "list of dict": lambda self: [{"optimizer": sgd(self)}],
    "two lists": lambda self: ([optimizer := sgd(self)], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]),
    "list and empty list": lambda self: [[sgd(self)], []],
    "dict with schedule": lambda self: {
        "optimizer": (optimizer := sgd(self)),
        "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1), "interval": "step"},
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_configure_optimizers_is_understood(one, form):
    job = from_lightning(line(one, configure_optimizers=FORMS[form]), train_data=rows)
    assert job.baseline.learning_rate == 0.1
    assert [group["lr"] for group in optimizer_of(job).param_groups] == [0.5]


def test_groups_keep_the_ratio_of_their_rates(one):
    def configure_optimizers(self):
        groups = [{"params": [self.layer.weight], "lr": 0.01}, {"params": [self.layer.bias]}]
        return torch.optim.SGD(groups, lr=0.04)

    job = from_lightning(line(one, configure_optimizers=configure_optimizers), train_data=rows)
    assert job.baseline.learning_rate == 0.04
    assert [group["lr"] for group in optimizer_of(job, 0.4).param_groups] == pytest.approx([0.1, 0.4])


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10),
    ],
)
def test_warm_up_that_starts_low_does_not_hide_the_rate(one, schedule):
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [schedule(optimizer)]

    job = from_lightning(line(one, configure_optimizers=configure_optimizers), train_data=rows)
    assert job.baseline.learning_rate == pytest.approx(0.1)
    optimizer = optimizer_of(job, 0.5)
    torch.optim.lr_scheduler.StepLR(optimizer, 100)  # a later scheduler starts from our rate, not the old one
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert optimizer.param_groups[0]["initial_lr"] == 0.5


def test_own_optimizer_replaces_configure_optimizers(one):
    module = line(one, configure_optimizers=lambda self: [sgd(self), sgd(self)])
    job = from_lightning(
        module, train_data=rows, optimizer=lambda model, rate: torch.optim.Adam(model.parameters(), rate)
    )
    assert isinstance(optimizer_of(job), torch.optim.Adam)


def test_asking_for_the_rate_leaves_no_trace_in_chance(one):
    module = type("Line", (line(one),), {"__init__": lambda self: one.LightningModule.__init__(self)})
    module.configure_model = lambda self: setattr(self, "layer", nn.Linear(4, 1))
    torch.manual_seed(3)
    asked = from_lightning(module, train_data=rows).model().layer.weight
    torch.manual_seed(3)
    told = from_lightning(module, train_data=rows, learning_rate=0.1).model().layer.weight
    assert torch.equal(asked, told)


# --- refusals --------------------------------------------------------------------------------------------------------


def manual(self):
    super(type(self), self).__init__()
    self.automatic_optimization = False


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"__init__": manual}, "automatic_optimization=False"),
        ({"configure_optimizers": lambda self: [sgd(self), sgd(self)]}, "gives 2 optimizers"),
        ({"configure_optimizers": lambda self: None}, "gives 0 optimizers"),
        ({"optimizer_step": lambda self, *args: None}, "its own optimizer_step"),
    ],
)
def test_own_updates_are_refused_with_the_way_out(pl, methods, words):
    with pytest.raises(JobRaised, match=words) as refused:
        from_lightning(line(pl, **methods), train_data=rows)
    assert "step=(model, optimizer, batch) -> loss" in str(refused.value)


def test_something_else_than_a_module_is_refused(one):
    with pytest.raises(JobRaised, match=r"module\(\) returned a Linear; legroom needs a LightningModule"):
        from_lightning(lambda: nn.Linear(4, 1), train_data=rows)
    with pytest.raises(JobRaised, match=r"data\(\) returned a TensorDataset; legroom needs a LightningDataModule"):
        from_lightning(line(one), data=rows)


def test_an_object_in_place_of_what_makes_it_is_refused(one):
    with pytest.raises(JobRaised, match=r"from_lightning\.module is a Line; legroom needs a function"):
        from_lightning(line(one)(), train_data=rows)
    with pytest.raises(JobRaised, match=r"from_lightning\.train_data is a TensorDataset"):
        from_lightning(line(one), train_data=rows())
    with pytest.raises(JobRaised, match=r"from_lightning\.data is a Rows"):
        from_lightning(line(one), data=data(one)())


def test_data_given_twice_or_not_at_all_is_refused(one):
    with pytest.raises(UsageError, match="both data= and train_data="):
        from_lightning(line(one), data=data(one), train_data=rows)
    with pytest.raises(JobRaised, match="has no train_dataloader"):
        from_lightning(line(one))


def test_missing_package_says_how_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install lightning"):
        from_lightning(lambda: None, train_data=rows)


def test_adapter_does_not_import_lightning():
    code = (
        "import legroom.adapters.lightning, sys; print('pytorch_lightning' in sys.modules, 'lightning' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# --- data ------------------------------------------------------------------------------------------------------------


def test_loaders_of_a_data_module_give_data_collate_and_baseline(pl):
    job = from_lightning(line(pl), data=data(pl), arguments={"precision": "bf16-mixed", "devices": 2})
    assert (len(job.train_data()), len(job.valid_data())) == (48, 48)
    assert job.collate is keep
    assert job.loader is None
    expected = Settings(
        batch_size=6, num_workers=2, prefetch_factor=3, learning_rate=0.1, precision="bf16", num_devices=2
    )
    assert job.baseline == expected


def test_module_with_its_own_loaders_needs_no_data(one):
    module = line(one, train_dataloader=lambda self: [DataLoader(rows(), batch_size=5)])
    job = from_lightning(module, batch_size=9)
    assert (len(job.train_data()), job.valid_data, job.baseline.batch_size) == (48, None, 9)


def test_factories_of_loaders_and_of_data_sets_both_do(one):
    by_loader = from_lightning(line(one), train_data=lambda: DataLoader(rows(), batch_size=5), valid_data=rows)
    assert (by_loader.baseline.batch_size, len(by_loader.train_data())) == (5, 48)
    assert len(by_loader.valid_data()) == 48
    assert from_lightning(line(one), train_data=rows).baseline.batch_size == Settings().batch_size


def test_weighted_sampler_survives_another_batch_size(one):
    weights = [1.0] + [0.0] * 47
    loader = DataLoader(rows(), batch_size=4, sampler=WeightedRandomSampler(weights, 20))
    job = from_lightning(line(one), train_data=lambda: loader, valid_data=rows)
    batches = list(job.loader(job.train_data(), Settings(batch_size=10)))
    assert [len(inputs) for inputs, _ in batches] == [10, 10]
    assert all(torch.equal(row, rows()[0][0]) for inputs, _ in batches for row in inputs)
    held_out = torch.cat([inputs for inputs, _ in job.loader(job.valid_data(), Settings(batch_size=10))])
    assert torch.equal(held_out, rows().tensors[0])


def test_weighted_sampler_survives_a_collate_of_our_own(one):
    loader = DataLoader(rows(), batch_size=4, sampler=WeightedRandomSampler([1.0] + [0.0] * 47, 20))
    job = from_lightning(line(one), train_data=lambda: loader, collate=lambda samples: [x for x, _ in samples])
    batches = list(job.loader(job.train_data(), Settings(batch_size=10)))
    assert [len(batch) for batch in batches] == [10, 10]
    assert all(torch.equal(row, rows()[0][0]) for batch in batches for row in batch)


def test_validation_keeps_its_own_collate(one):
    job = from_lightning(
        line(one),
        train_data=lambda: DataLoader(rows(), batch_size=4, collate_fn=keep),
        valid_data=lambda: DataLoader(rows(), batch_size=4, collate_fn=lambda samples: "held out"),
    )
    assert next(iter(job.loader(job.valid_data(), Settings()))) == "held out"
    assert next(iter(job.loader(job.train_data(), Settings(batch_size=3))))[0].shape == (3, 4)


def own_batches():
    return DataLoader(rows(), batch_sampler=BatchSampler(SequentialSampler(range(48)), 3, False))


def test_loader_that_lays_out_its_own_batches_is_refused_unless_replaced(one):
    with pytest.raises(JobRaised, match=r"lays out its own batches.*loader="):
        from_lightning(line(one), train_data=own_batches)
    job = from_lightning(line(one), train_data=own_batches, loader=lambda dataset, settings: [settings.batch_size])
    assert job.loader(job.train_data(), Settings(batch_size=7)) == [7]


def test_several_loaders_are_refused(one):
    with pytest.raises(JobRaised, match="several loaders"):
        from_lightning(line(one), data=data(one, val_dataloader=lambda self: [own_batches(), own_batches()]))


def test_transfer_hooks_of_module_and_data_module_are_called_in_order(pl):
    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).mean() * 0 + batch[1]

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch[0], batch[1] * (10 if self.trainer.training else 100)

    def on_before_batch_transfer(self, batch, dataloader_idx):
        return batch[0], torch.tensor(2.0)

    def never(self, batch, dataloader_idx):
        raise AssertionError("the data module's hook goes before this one")

    hooks = {"on_after_batch_transfer": on_after_batch_transfer}
    module = line(
        pl,
        training_step=training_step,
        on_before_batch_transfer=on_before_batch_transfer,
        on_after_batch_transfer=never,
    )
    job = from_lightning(module, data=data(pl, **hooks))
    model = job.model()
    assert job.loss(model, first_batch()).item() == 20
    assert job.loss(model.eval(), first_batch()).item() == 200


# --- the way back ----------------------------------------------------------------------------------------------------


def test_trainer_takes_the_arguments_and_gives_them_back(one):
    settings = Settings(accumulation_steps=4, clip_norm=0.5, num_epochs=7, precision="bf16", batch_size=6)
    arguments = trainer_arguments(settings)
    assert set(arguments) <= set(inspect.signature(one.Trainer).parameters)
    trainer = one.Trainer(**arguments, accelerator="cpu", logger=False, enable_checkpointing=False)
    assert (trainer.accumulate_grad_batches, trainer.gradient_clip_val, trainer.max_epochs) == (4, 0.5, 7)
    job = from_lightning(line(one), train_data=rows, arguments=arguments, batch_size=6, learning_rate=1e-3)
    assert job.baseline == settings


@pytest.mark.parametrize(
    "arguments",
    [
        {"precision": "64-true"},
        {"gradient_clip_algorithm": "value"},
        {"strategy": "fsdp"},
        {"limit_train_batches": 0.5},
    ],
)
def test_arguments_without_an_equal_are_refused(one, arguments):
    with pytest.raises(UsageError, match=str(next(iter(arguments.values())))):
        from_lightning(line(one), train_data=rows, arguments=arguments)


def test_an_unknown_argument_names_those_close_to_it(one):
    with pytest.raises(UsageError, match=r"which Trainer does not\. Close to it: accumulate_grad_batches"):
        from_lightning(line(one), train_data=rows, arguments={"accumulate_gradient_batches": 2})


def test_a_length_in_steps_becomes_whole_epochs_and_that_is_said(one):
    arguments = {"max_steps": 20, "max_epochs": -1, "accumulate_grad_batches": 2}
    job = from_lightning(line(one), data=data(one), arguments=arguments)
    assert job.baseline.num_epochs == 5  # 48 rows in batches of 6, two an update, are 4 updates
    assert "whole epochs, 5 of them, unless --steps 20 says otherwise" in job.notes[0]
    capped = from_lightning(line(one), data=data(one), arguments={**arguments, "max_epochs": 3})
    assert capped.baseline.num_epochs == 3


def test_callbacks_that_are_not_called_are_told(one):
    job = from_lightning(line(one), train_data=rows, arguments={"callbacks": [one.callbacks.EarlyStopping("val_loss")]})
    assert "not called: EarlyStopping" in job.notes[0]
