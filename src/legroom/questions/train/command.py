"""Words of `legroom train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legroom.cli import options
from legroom.errors import UsageError

SHARED = options.OF_JOBS


def words(
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="plan.toml whose settings to train with.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Use a plan of another job or machine.")] = False,
    target: Annotated[
        str | None, typer.Option(metavar="NAME=VALUE", help="score=0.97 or loss=0.1 on the validation data: ends it.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in one forward pass.")] = None,
    accumulation_steps: Annotated[int | None, typer.Option(help="Forward passes joined into one update.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak rate.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Such as cosine or polynomial:power=2.")] = None,
    warmup_steps: Annotated[int | None, typer.Option(help="Updates over which the rate climbs to its peak.")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="Largest gradient norm let through.")] = None,
    precision: options.Precision = None,
    num_workers: Annotated[int | None, typer.Option("--workers", help="Loader processes.")] = None,
    num_epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the training data.")] = None,
    num_steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Length of the run in updates, instead of epochs.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="Budget: seconds of training at most.")
    ] = None,
    evaluate_steps: Annotated[
        int | None, typer.Option(min=1, help="Updates between evaluations. (default: one an epoch)")
    ] = None,
    until_target: Annotated[
        bool, typer.Option("--until-target", help="Keep the rate, and cool down when that reaches the target.")
    ] = False,
    patience: Annotated[int | None, typer.Option(min=1, help="Evaluations without gain that end the run.")] = None,
    watch: Annotated[str, typer.Option(help="What must gain: loss or score.")] = "loss",
    tolerance: Annotated[float, typer.Option(min=0.0, help="Share by which it must gain to count, as 0.01.")] = 0.0,
    checkpoint_seconds: Annotated[float, typer.Option(min=0.0, help="Seconds between checkpoints.")] = 60.0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files too.")] = False,
    allocator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="On a GPU: expandable segments, or torch's default, where memory says so. "
            "(default: the plan's, else as your environment has it)",
        ),
    ] = None,
    compile: Annotated[bool | None, typer.Option(help="Compile the loss with torch.compile.")] = None,
    channels_last: Annotated[bool | None, typer.Option(help="Lay images out channels last.")] = None,
    fused: Annotated[bool | None, typer.Option(help="Use the optimizer's fused form.")] = None,
    num_devices: Annotated[
        int | None, typer.Option("--devices", min=1, help="Devices on this machine that share each update.")
    ] = None,
    effective_batch: Annotated[
        int | None, typer.Option(min=1, help="Samples of an update over all devices, instead of --batch-size.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Machines, each of which runs this command.")] = 1,
    rendezvous: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where these machines meet.")] = "",
    restarts: Annotated[
        int, typer.Option(min=0, help="How often to go on from the checkpoint after a process has failed.")
    ] = 0,
    sync_batch_norm: Annotated[
        bool, typer.Option("--sync-batch-norm", help="BatchNorm over the batches of all GPUs.")
    ] = False,
    find_unused_parameters: Annotated[
        bool, typer.Option("--find-unused-parameters", help="Look at every update for parameters without gradient.")
    ] = False,
    shard: Annotated[
        bool, typer.Option("--shard", help="Each device keeps a share of weights and optimizer alone (FSDP).")
    ] = False,
) -> dict[str, Any]:
    """Train the job to its target, with its own settings or a plan's. Ctrl-C saves; --resume goes on."""
    given = {name: value for name, value in dict(locals()).items() if value is not None}
    if watch not in ("loss", "score"):
        raise UsageError(f"--watch is {watch!r}; it must be loss or score")
    if num_devices is not None or nodes > 1:
        given["num_devices"] = (num_devices or 1) * nodes
    return given
