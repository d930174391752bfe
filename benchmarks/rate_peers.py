"""Other searches for a learning rate on the jobs of benchmarks/rate.py: each returns its rate and its samples."""

import math
from collections.abc import Callable
from typing import Any

import torch

NUM_RAMP, LEAST, MOST = 100, 1e-6, 10.0
"""Updates of a ramp, and its ends, for both finders."""
SPAN = (1e-5, 10.0)
"""Rates that Hyperband draws from, evenly over their logarithm."""
SKIP_START, SKIP_END = 10, 5
"""Updates that torch-lr-finder's own suggestion leaves out."""

Found = dict[str, Any]


def loader(bench: Any) -> Any:
    """Batches as the job's own settings have them."""
    if bench.job.loader is not None:
        return bench.job.loader(bench.train, bench.own)
    size = bench.own.batch_size
    return torch.utils.data.DataLoader(bench.train, size, shuffle=True, collate_fn=bench.job.collate, drop_last=True)


def loss_of(bench: Any, model: Any, batch: Any) -> Any:
    """The job's mean loss."""
    found = bench.job.loss(model, batch)
    return found[0] if isinstance(found, tuple) else found


def lightning_rate(bench: Any, most_samples: int) -> Found:
    """What Lightning's lr_find suggests."""
    try:
        import lightning
        from lightning.pytorch.tuner import Tuner
    except ImportError as error:
        return {"error": f"not importable: {error}"}

    class Wrapped(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model, self.learning_rate = bench.job.model(), bench.own.learning_rate

        def training_step(self, batch: Any, index: int) -> Any:
            return loss_of(bench, self.model, batch)

        def configure_optimizers(self) -> Any:
            return bench.job.optimizer(self.model, self.learning_rate)

    torch.manual_seed(100)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "devices": 1}
    quiet["accelerator"] = {"cuda": "gpu"}.get(bench.device, bench.device)
    trainer = lightning.Trainer(max_epochs=100, enable_model_summary=False, **quiet)
    try:
        found = Tuner(trainer).lr_find(Wrapped(), loader(bench), min_lr=LEAST, max_lr=MOST, num_training=NUM_RAMP)
    except Exception as error:  # a peer that fails is a row too
        return {"error": f"{type(error).__name__}: {error}"}
    rate = found.suggestion() if found is not None else None
    if rate is None:
        return {"error": "it suggested no rate"}
    return {"learning_rate": float(rate), "num_samples": NUM_RAMP * bench.own.batch_size}


def finder_rate(bench: Any, most_samples: int) -> Found:
    """The steepest place of torch-lr-finder's ramp, as its own plot suggests it."""
    try:
        import torch_lr_finder
    except ImportError as error:
        return {"error": f"not importable: {error}"}
    import numpy as np

    class Losses(torch.nn.Module):
        """Takes a batch and gives its loss, since the finder knows models and criteria apart."""

        def __init__(self) -> None:
            super().__init__()
            self.model = bench.job.model()

        def forward(self, batch: Any) -> Any:
            return loss_of(bench, self.model, batch)

    class Batches(torch_lr_finder.TrainDataLoaderIter):  # type: ignore[misc]
        def inputs_labels_from_batch(self, batch: Any) -> Any:
            return batch, torch.zeros(())

    torch.manual_seed(100)
    losses = Losses()
    optimizer = bench.job.optimizer(losses.model, LEAST)
    finder = torch_lr_finder.LRFinder(losses, optimizer, lambda loss, nothing: loss, device=bench.device)
    try:
        finder.range_test(Batches(loader(bench)), end_lr=MOST, num_iter=NUM_RAMP)
    except Exception as error:  # a peer that fails is a row too
        return {"error": f"{type(error).__name__}: {error}"}
    rates, seen = (finder.history[name][SKIP_START:-SKIP_END] for name in ("lr", "loss"))
    if len(seen) < 2:
        return {"error": f"its ramp ended after {len(finder.history['loss'])} updates"}
    place = int(np.gradient(np.array(seen)).argmin())
    return {"learning_rate": float(rates[place]), "num_samples": len(finder.history["loss"]) * bench.own.batch_size}


def hyperband_rate(bench: Any, most_samples: int) -> Found:
    """The best rate of Optuna's TPE with Hyperband over constant rates, within that many samples."""
    try:
        import optuna
    except ImportError as error:
        return {"error": f"not importable: {error}"}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    size, sign = bench.own.batch_size, 1.0 if bench.goal == "max" else -1.0
    most, every = bench.samples // size, bench.every(bench.own.batch_size)
    paid = 0

    def objective(trial: Any) -> float:
        nonlocal paid
        rate, told, best = trial.suggest_float("rate", *SPAN, log=True), 0, -math.inf

        def ends(evaluations: Any) -> bool:
            nonlocal told, best
            for found in evaluations[told:]:
                told += 1
                value = getattr(found, bench.judge)
                best = max(best, sign * value if value is not None and math.isfinite(value) else -math.inf)
                trial.report(best if math.isfinite(best) else -1e9, told)
                if trial.should_prune():
                    return True
            return bool(evaluations) and paid + evaluations[-1].step * size >= most_samples

        done = bench.run(bench.constant(rate, size, 100), most, ends, evaluate_steps=every)
        paid += done["num_samples"]
        if paid < most_samples and done["stopped"] == "interrupted":
            raise optuna.TrialPruned
        return best if math.isfinite(best) else -1e9

    pruner = optuna.pruners.HyperbandPruner(min_resource=2, max_resource=max(2, most // every), reduction_factor=3)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=100), pruner=pruner)
    while paid < most_samples:
        study.optimize(objective, n_trials=1)
    best_trial = max(study.trials, key=lambda trial: max(trial.intermediate_values.values(), default=-math.inf))
    return {"learning_rate": best_trial.params["rate"], "num_samples": paid, "num_trials": len(study.trials)}


PEERS: dict[str, Callable[[Any, int], Found]] = {
    "lr_find": lightning_rate,
    "torch-lr-finder": finder_rate,
    "hyperband": hyperband_rate,
}
