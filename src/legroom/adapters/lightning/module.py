"""Builds a LightningModule as a Trainer would before the first batch, and runs its steps."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from legroom.adapters.lightning.package import base_of, overrides, silent_logger
from legroom.adapters.lightning.trainer import StandInTrainer
from legroom.errors import JobRaised
from legroom.job import Batch
from legroom.training.data.batch import num_rows

OWN_STEP = (
    "Write legroom.Job(model=..., train_data=..., optimizer=..., step=(model, optimizer, batch) -> loss) "
    "with that update in its step"
)
UPDATE_HOOKS = ("backward", "optimizer_step", "configure_gradient_clipping")
VALIDATION_HOOKS = ("on_validation_epoch_start", "on_validation_epoch_end")
"""Called only where the score is a logged metric: nothing else tells where a pass begins and ends."""
LEFT_OUT_HOOKS = (
    "on_fit_start", "on_fit_end", "on_train_start", "on_train_end", "on_train_epoch_start", "on_train_epoch_end",
    "on_train_batch_start", "on_train_batch_end", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_before_zero_grad", "optimizer_zero_grad", "on_validation_start",
    "on_validation_end", "on_validation_batch_start", "on_validation_batch_end", "on_save_checkpoint",
    "on_load_checkpoint",
)  # fmt: skip
"""A Trainer calls them; here nothing does."""
TRANSFER_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


def build(factory: Callable[[], Any], make_trainer: Callable[[], StandInTrainer]) -> Any:
    """A fresh module that believes it has a Trainer."""
    module, trainer = factory(), make_trainer()
    base = base_of(module, "module()", "LightningModule")
    trainer.logger = silent_logger(base)
    trainer.loggers = [trainer.logger]
    _attach(module, base, trainer)
    module.prepare_data()
    module.setup("fit")
    module.configure_model()
    _attach(module, base, trainer)  # setup and configure_model may have added modules
    _refuse_own_updates(module, base)
    trainer.steps = Steps(module, base, trainer.datamodule)
    if trainer.log.wanted is not None and "validation_step" not in trainer.steps.num_arguments:
        raise JobRaised(
            f"{type(module).__name__} has no validation_step, so it never logs {trainer.log.wanted!r}. "
            "Write one that calls self.log, or pass score=legroom.Score(...)"
        )
    return module


def run_step(module: Any, batch: Batch) -> torch.Tensor:
    """The loss of training_step; in evaluation mode, that of validation_step where it returns one."""
    module.trainer.training, module.trainer.validating = module.training, not module.training
    return module.trainer.steps.run(module, batch)  # type: ignore[no-any-return]


def note_progress(module: Any, num_updates: int, epoch: int) -> None:
    """Let the module's global_step and current_epoch be those of the run."""
    module.trainer.follow(num_updates, epoch)


def notes_on_hooks(module: Any) -> tuple[str, ...]:
    """Which hooks the module has that nobody will call."""
    base, kept = base_of(module, "module()", "LightningModule"), module.trainer.log.wanted is not None
    names = [*LEFT_OUT_HOOKS, *(() if kept else VALIDATION_HOOKS)]
    found = ", ".join(name for name in names if overrides(module, name, base))
    if not found:
        return ()
    return (
        f"Hooks of {type(module).__name__} that a Trainer calls and legroom's loop does not: {found}. What they "
        "change of a run, such as averaged weights, frozen layers or gradients, is left out",
    )


def _attach(module: Any, base: type, trainer: StandInTrainer) -> None:
    module.trainer = trainer
    if trainer.datamodule is not None:
        trainer.datamodule.trainer = trainer
    for part in module.modules():
        if isinstance(part, base):
            part.log, part.log_dict = trainer.log.log, trainer.log.log_dict  # type: ignore[attr-defined]


def _refuse_own_updates(module: Any, base: type) -> None:
    name = type(module).__name__
    if not module.automatic_optimization:
        raise JobRaised(f"{name} has automatic_optimization=False; legroom needs one loss, one optimizer. {OWN_STEP}")
    for hook in UPDATE_HOOKS:
        if overrides(module, hook, base):
            raise JobRaised(f"{name} has its own {hook}, which legroom's step would leave out. {OWN_STEP}")


class Steps:
    """How this module's steps are called; found out once, since looking is slower than a small step's launch."""

    def __init__(self, module: Any, base: type, datamodule: Any) -> None:
        self.num_arguments = {
            name: _num_arguments(getattr(module, name))
            for name in ("training_step", "validation_step")
            if overrides(module, name, base)
        }
        self.num_batches = dict.fromkeys(self.num_arguments, 0)
        self.validation_hooks = {hook for hook in VALIDATION_HOOKS if overrides(module, hook, base)}
        theirs = None if datamodule is None else base_of(datamodule, "data()", "LightningDataModule")
        # The data module's hooks go before the module's, as in Lightning. None stands for the module: a reference
        # to it here would be a cycle, and its memory would outlive it.
        self.transfers: list[tuple[str, Any]] = []
        for hook in TRANSFER_HOOKS:
            if theirs is not None and overrides(datamodule, hook, theirs):
                self.transfers.append((hook, datamodule))
            elif overrides(module, hook, base):
                self.transfers.append((hook, None))

    def run(self, module: Any, batch: Batch) -> torch.Tensor:
        batch = self._transfer(module, batch)
        if not module.training and "validation_step" in self.num_arguments:
            loss = self._validate(module, batch)
            if loss is not None:
                return loss
        loss = self._call(module, "training_step", batch) if "training_step" in self.num_arguments else None
        if loss is None:
            raise JobRaised(
                f"training_step of {type(module).__name__} gives no loss; legroom needs one for every batch. "
                "Return a scalar tensor, or a dict with 'loss'"
            )
        return loss

    @property
    def ends_validation(self) -> bool:
        """Whether the module does something of its own when a pass ends."""
        return VALIDATION_HOOKS[1] in self.validation_hooks

    def end_validation(self, module: Any) -> None:
        """Let the module do it, and log."""
        self._call_hook(module, VALIDATION_HOOKS[1])

    def _validate(self, module: Any, batch: Batch) -> torch.Tensor | None:
        log = module.trainer.log
        if log.wanted is None:
            return self._call(module, "validation_step", batch)
        if not log.in_pass:
            log.in_pass = True
            self._call_hook(module, VALIDATION_HOOKS[0])
        log.num_rows, log.is_open = num_rows(batch), True
        loss = self._call(module, "validation_step", batch)
        log.is_open = False
        return loss

    def _call_hook(self, module: Any, hook: str) -> None:
        if hook in self.validation_hooks:
            log = module.trainer.log
            log.num_rows, log.is_open = 1, True
            getattr(module, hook)()
            log.is_open = False

    def _transfer(self, module: Any, batch: Batch) -> Batch:
        for hook, owner in self.transfers:
            device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
            extra = (device, 0) if hook == "transfer_batch_to_device" else (0,)
            batch = getattr(owner or module, hook)(batch, *extra)
        return batch

    def _call(self, module: Any, name: str, batch: Batch) -> torch.Tensor | None:
        # Modules do costly things at batch 0 (pictures, printing), so the index must move on; but a compiled step
        # would be compiled again for each index.
        index = 0 if torch.compiler.is_compiling() else self.num_batches[name]
        self.num_batches[name] = index + 1
        returned = getattr(module, name)(*(batch, index, 0)[: self.num_arguments[name]])
        return returned.get("loss") if isinstance(returned, Mapping) else returned


def _num_arguments(step: Callable[..., Any]) -> int:
    """How many of (batch, batch_idx, dataloader_idx) a step takes: the first two where it can, the third if it must."""
    parameters = inspect.signature(step).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return max(min(len(positional), 2), sum(p.default is p.empty for p in positional))
