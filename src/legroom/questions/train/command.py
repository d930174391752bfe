"""Words of `legroom train`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.errors import UsageError
from legroom.setting_rules import RULES, lacks

SHARED = options.OF_JOBS
RENAMED = {"num_workers": "workers", "num_epochs": "epochs", "num_devices": "devices"}
"""Settings whose options have other names."""
of_several = partial(typer.Option, rich_help_panel="Several devices")
"""An option in the panel of those that only several devices need."""


def words(
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="plan.toml whose settings to train with.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Use a plan of another job or machine.")] = False,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE", help="score=0.97 or loss=0.1: reaching it on the validation data ends the run."
        ),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(metavar="N", help="Samples in one forward pass.")] = None,
    accumulation_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Forward passes joined into one update.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(metavar="RATE", help="At the schedule's peak.")] = None,
    schedule: Annotated[str | None, typer.Option(metavar="NAME", help="Such as cosine or polynomial:power=2.")] = None,
    warmup_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Updates over which the rate climbs to its peak.")
    ] = None,
    clip_norm: Annotated[float | None, typer.Option(metavar="NORM", help="Gradients above it are scaled down.")] = None,
    precision: options.Precision = None,
    num_workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="Loader processes.")] = None,
    num_epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", help="Passes over the training data.")
    ] = None,
    num_steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=1, help="Length of the run in updates, instead of epochs.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="SECONDS", min=0.1, help="Of training and evaluating at most.")
    ] = None,
    evaluate_steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Updates between evaluations. (default: one an epoch)")
    ] = None,
    until_target: Annotated[
        bool, typer.Option("--until-target", help="Keep the rate, and cool down once that reaches the --target.")
    ] = False,
    patience: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Evaluations without gain that end the run.")
    ] = None,
    watch: Annotated[str, typer.Option(metavar="NAME", help="What must gain for --patience: loss or score.")] = "loss",
    tolerance: Annotated[
        float, typer.Option(metavar="SHARE", min=0.0, help="By which it must gain to count, as 0.01.")
    ] = 0.0,
    checkpoint_seconds: Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Between checkpoints.")] = 60.0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files too.")] = False,
    allocator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a GPU's memory: expandable (segments that grow), or default (torch's own). "
            "(default: the plan's, else as your environment has it)",
        ),
    ] = None,
    compile: Annotated[bool | None, typer.Option(help="Compile the loss with torch.compile.")] = None,
    channels_last: Annotated[bool | None, typer.Option(help="Lay images out channels last.")] = None,
    fused: Annotated[bool | None, typer.Option(help="Use the optimizer's fused form.")] = None,
    model_size: Annotated[
        str | None, typer.Option(metavar="NAME=VALUE", help="Of the job's resize, such as width=64.")
    ] = None,
    num_devices: Annotated[
        int | None, of_several("--devices", metavar="N", min=1, help="Devices on this machine that share each update.")
    ] = None,
    effective_batch: Annotated[
        int | None,
        of_several(metavar="N", min=1, help="Samples of an update over all devices, instead of --batch-size."),
    ] = None,
    rate_rule: Annotated[
        str | None,
        of_several(
            metavar="NAME",
            help="How the rate follows an update that grows: legw, sqrt, linear or keep. "
            "(default: legw where devices alone make it grow)",
        ),
    ] = None,
    nodes: Annotated[int, of_several(metavar="N", min=1, help="Machines, each of which runs this command.")] = 1,
    rendezvous: Annotated[str, of_several(metavar="HOST:PORT", help="Where these machines meet.")] = "",
    restarts: Annotated[
        int, of_several(metavar="N", min=0, help="How often to go on from the checkpoint after a process has failed.")
    ] = 0,
    sync_batch_norm: Annotated[
        bool, of_several("--sync-batch-norm", help="BatchNorm over the batches of all GPUs.")
    ] = False,
    find_unused_parameters: Annotated[
        bool,
        of_several(
            "--find-unused-parameters", help="Allow parameters that get no gradient: each update looks for them."
        ),
    ] = False,
    bucket_cap_mb: Annotated[
        float | None,
        of_several(metavar="MIB", help="Gradients that are sent at once. (default: torch's own, 1 then 25)"),
    ] = None,
    broadcast_buffers: Annotated[
        bool | None, of_several(help="Take the first device's buffers before every forward pass. (default: yes)")
    ] = None,
    shard: Annotated[
        bool, of_several("--shard", help="Share weights and optimizer out over the devices (FSDP).")
    ] = False,
) -> dict[str, Any]:
    """Train the job to its target, with its own settings or a plan's. Ctrl-C saves; --resume goes on.

    Settings that are not named are the plan's, else the job's own.
    """
    given = {name: value for name, value in dict(locals()).items() if value is not None}
    _check_settings(given)
    if watch not in ("loss", "score"):
        raise UsageError(f"--watch is {watch!r}; it must be loss or score")
    if num_devices is not None:
        given["num_devices"] = num_devices * nodes
    elif nodes > 1:
        given["num_devices"] = max(nodes, 1 if plan is None else devices_of(plan))
    return given


def _check_settings(given: Mapping[str, Any]) -> None:
    """Refuse values of settings by the names of their options; 'None' is none that can be typed."""
    for name, value in given.items():
        if name in RULES and (wanted := lacks(name, value).removesuffix(", or None")):
            option = RENAMED.get(name, name.replace("_", "-"))
            raise UsageError(f"--{option} is {value!r}; it must be {wanted}")


def devices_of(plan: Path) -> int:
    """Devices that the plan names, on all machines together."""
    from legroom.plan_file import read_plan
    from legroom.plan_use import settings_of

    return int(settings_of(read_plan(plan)).get("num_devices", 1))
