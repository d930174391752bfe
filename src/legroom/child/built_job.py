"""What one child has built of the job: data, model, optimizer and the step that joins them."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from legroom.child.batches import BatchSource
from legroom.errors import JobRaised, LegroomError
from legroom.job import Job, Settings
from legroom.job_address import JobAddress, load_job
from legroom.training.options import apply_options, make_optimizer, place_model
from legroom.training.step import TrainingStep
from legroom.training.torch_internals import clear_cublas_workspaces

Beat = Callable[..., None]
"""Called with what the job is at and, where known, the share that is done."""


class BuiltJob:
    """Builds each part of the job once, at first need, and checks it as it comes."""

    def __init__(self, address: JobAddress, beat: Beat = lambda phase, share=None: None) -> None:
        self.address, self.beat = address, beat
        self.saw_finite_loss = False
        self.batch_bytes: dict[int, int] = {}
        """Of the largest batch that a loader gave, by batch size."""
        self.worker_bytes = 0
        """Private memory of the largest loader worker seen."""
        self.kept: dict[str, Any] = {}
        """What a question holds here from request to request, by its name."""
        self.options: dict[str, Any] = {}
        """Settings of the step now built that are not the job's own."""

    @cached_property
    def job(self) -> Job:
        """The job behind the address."""
        self.beat("import")
        return load_job(self.address)

    @cached_property
    def train(self) -> BatchSource:
        """Batches of the training data."""
        return self._source("train_data", self.job.train_data)

    @cached_property
    def valid(self) -> BatchSource:
        """Batches of the validation data, or of the training data where the job has none."""
        return self.train if self.job.valid_data is None else self._source("valid_data", self.job.valid_data)

    @cached_property
    def model(self) -> nn.Module:
        """The model, as the job makes it; at the size that its settings name."""
        size = self.job.baseline.model_size
        with blaming(f"resize at {size}" if size else "model"):
            model = self.job.make_model(size)
        if not isinstance(model, nn.Module):
            raise JobRaised(f"model() returned a {type(model).__name__}; legroom needs a torch.nn.Module")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise JobRaised("The model has no trainable parameters, so there is nothing to train. Unfreeze some")
        return model

    def forget_model(self) -> None:
        """Let go of model and optimizer, and of the memory they held: the next question builds new ones.

        cuBLAS's workspaces go too: a fresh process takes them amid the first forward pass, between activations, where
        they cost up to 7 % of the batch; left over from before, they would lie aside.
        """
        self.__dict__.pop("model", None)
        self.__dict__.pop("optimizer", None)
        gc.collect()
        if torch.cuda.is_available():
            clear_cublas_workspaces()
            torch.cuda.empty_cache()

    def prepare(self) -> None:
        """Build on the host what every question needs."""
        _ = self.model, self.train

    @property
    def settings(self) -> Settings:
        """The job's own, but for the options of the step."""
        return replace(self.job.baseline, **self.options)

    def training_step(
        self,
        device: torch.device,
        precision: str,
        watch: Callable[[str], None],
        options: Mapping[str, Any] | None = None,
    ) -> TrainingStep:
        """The job's step with a model on the device; with options of the step in place of its own."""
        self._use(options or {})
        settings = replace(self.settings, precision=precision, accumulation_steps=1)
        model = place_model(self.model, settings, device)
        return TrainingStep(self._job_as_run, model.train(), self.optimizer, settings, device, watch)

    def _use(self, options: Mapping[str, Any]) -> None:
        if dict(options) != self.options:
            self.forget_model()
            self.__dict__.pop("_job_as_run", None)
            self.options = dict(options)

    @cached_property
    def _job_as_run(self) -> Job:
        """The job with what the settings change of the loss; kept, since a compiled loss is compiled once."""
        return apply_options(self.job, self.settings)

    @cached_property
    def optimizer(self) -> Any:
        """The optimizer at the job's own rate; None where the job keeps its optimizers to itself."""
        if self.job.optimizer is None:
            return None
        with blaming("optimizer"):
            return make_optimizer(self.job, self.model, self.settings)

    def _source(self, name: str, make: Callable[[], Any]) -> BatchSource:
        self.beat(name)
        with blaming(name):
            dataset = make()
        return BatchSource(self.job, dataset, name)


@contextmanager
def blaming(factory: str) -> Iterator[None]:
    """Say which factory of the job raised; memory errors and our own pass as they are."""
    try:
        yield
    except (LegroomError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        error.add_note(f"while legroom called {factory}() of the job")
        raise
