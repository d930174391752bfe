"""A metric that a LightningModule logs in validation is the score that a Trainer reports for it."""

import importlib
import warnings
from dataclasses import replace

import pytest
import torch
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from legroom import Score
from legroom.adapters.lightning import from_lightning
from legroom.errors import JobRaised, UsageError
from legroom.training.evaluation import Validation, evaluate
from legroom.training.ranks import ONE_RANK, OneRank

pl = importlib.import_module("pytorch_lightning")
CPU = torch.device("cpu")


def rows():
    random = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(50, 4, generator=random), torch.randint(3, (50,), generator=random))


def loader():
    return DataLoader(rows(), batch_size=8)  # the last batch has two rows


class Classifier(pl.LightningModule):
    """Logs its accuracy in the way of the subclass."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def training_step(self, batch, batch_idx):
        self.log("train_acc", 1.0)
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def hits(self, batch):
        return (self.layer(batch[0]).argmax(1) == batch[1]).float()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Number(Classifier):
    def validation_step(self, batch, batch_idx):
        self.log("val_acc", self.hits(batch).mean(), prog_bar=True)


class Dictionary(Classifier):
    def validation_step(self, batch, batch_idx):
        self.log_dict({"val_other": 1.0, "val_acc": self.hits(batch).mean().item()}, batch_size=len(batch[0]))
        return self.hits(batch).mean()


class Best(Classifier):
    def validation_step(self, batch, batch_idx):
        self.log("val_acc", self.hits(batch).mean(), reduce_fx="max")


class Metric(Classifier):
    def __init__(self):
        super().__init__()
        self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=3)

    def validation_step(self, batch, batch_idx):
        self.accuracy(self.layer(batch[0]), batch[1])
        self.log("val_acc", self.accuracy, on_step=False, on_epoch=True)


class Collection(Classifier):
    def __init__(self):
        super().__init__()
        kinds = {
            "acc": torchmetrics.Accuracy("multiclass", num_classes=3),
            "f1": torchmetrics.F1Score("multiclass", num_classes=3),
        }
        self.metrics = torchmetrics.MetricCollection(kinds, prefix="val_")

    def validation_step(self, batch, batch_idx):
        self.metrics.update(self.layer(batch[0]), batch[1])
        self.log_dict(self.metrics)


class AtTheEnd(Classifier):
    def on_validation_epoch_start(self):
        self.seen = []

    def validation_step(self, batch, batch_idx):
        self.seen.append(self.hits(batch))

    def on_validation_epoch_end(self):
        assert not self.training
        self.log("val_acc", torch.cat(self.seen).mean())


@pytest.mark.parametrize("module", [Number, Dictionary, Best, Metric, Collection, AtTheEnd])
def test_the_score_is_what_a_trainer_reports_in_every_pass(module):
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    with warnings.catch_warnings(action="ignore"):
        trainer.validate(module(), loader(), verbose=False)
    expected = trainer.callback_metrics["val_acc"].item()
    job = from_lightning(module, train_data=rows, valid_data=rows, score="val_acc", goal="max")
    model = job.model()
    for _ in range(2):  # what one pass added up must not reach the next
        assert evaluate(job, model, loader(), CPU, "fp32").score == pytest.approx(expected, abs=1e-7)
    assert model.training
    assert job.score.goal == "max"


class Silent(Classifier):
    def validation_step(self, batch, batch_idx):
        self.log("val_loss", 1.0)


class SilentAtTheEnd(Silent):
    def on_validation_epoch_end(self):
        self.log("val_f1", 1.0)


@pytest.mark.parametrize(("module", "names"), [(Silent, "val_loss"), (SilentAtTheEnd, "val_loss, val_f1")])
def test_a_metric_that_was_never_logged_is_named_with_those_that_were(module, names):
    job = from_lightning(module, train_data=rows, valid_data=rows, score="val_acc", goal="max")
    with pytest.raises(
        JobRaised, match=f"{module.__name__} never logged 'val_acc' in validation; it logged {names}\\."
    ):
        evaluate(job, job.model(), loader(), CPU, "fp32")


def test_a_metric_logged_in_training_is_no_score():
    job = from_lightning(Silent, train_data=rows, valid_data=rows, score="train_acc", goal="max")
    with pytest.raises(JobRaised, match="never logged 'train_acc' in validation"):
        evaluate(job, job.model(), loader(), CPU, "fp32")


def test_a_module_without_validation_step_is_refused_at_once():
    with pytest.raises(JobRaised, match="has no validation_step, so it never logs 'val_acc'"):
        from_lightning(Classifier, train_data=rows, score="val_acc", goal="max")


def test_a_name_without_a_goal_or_a_goal_without_a_name_is_refused():
    with pytest.raises(UsageError, match="needs goal='max' or goal='min'"):
        from_lightning(Number, train_data=rows, score="val_acc")
    with pytest.raises(UsageError, match="goal= without the name of a logged metric"):
        from_lightning(Number, train_data=rows, score=Score(lambda module, batch: (0, 1)), goal="max")


def test_a_reduction_that_cannot_be_followed_is_refused():
    odd = type("Odd", (Classifier,), {})
    odd.validation_step = lambda self, batch, batch_idx: self.log("val_acc", 1.0, reduce_fx=torch.median)
    job = from_lightning(odd, train_data=rows, valid_data=rows, score="val_acc", goal="max")
    with pytest.raises(JobRaised, match="reduce_fx='median'"):
        evaluate(job, job.model(), loader(), CPU, "fp32")


class SecondOfTwo(OneRank):
    """A rank that hears of the first what was planted."""

    number, num_ranks = 1, 2

    def first(self, value):
        return value + 0.25


def test_on_several_ranks_each_measures_all_of_the_data_and_takes_the_first_ones_word():
    job = from_lightning(Number, train_data=rows, valid_data=rows, score="val_acc", goal="max")
    settings = replace(job.baseline, batch_size=8)
    alone, shared = (Validation(job, rows(), settings, CPU, ranks) for ranks in (ONE_RANK, SecondOfTwo()))
    found = [valid.evaluate(job.model(), lambda: None) for valid in (alone, shared)]
    assert found[1].score == pytest.approx(found[0].score + 0.25)
    assert found[1].loss == pytest.approx(found[0].loss + 0.25)
