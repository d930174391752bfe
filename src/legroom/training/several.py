"""What a run on several devices needs to know, checked before anything is started."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from legroom.errors import UsageError
from legroom.host import Host
from legroom.requests import JobDescription
from legroom.training.records import Several, Train

PATIENCE = 0.7
"""Share of --timeout that processes wait for one another: who hangs is named before the run is taken for a hung one."""


CARRIES_STATE = (
    "Batches of this job's loader say which is the `first`: they carry state from one to the next, and cannot be dealt "
    "out to several devices. Train it on one"
)


def several_devices(
    host: Host, device: str, settings: Mapping[str, Any], timeout: float, **words: Any
) -> dict[str, Any]:
    """The fields of `Several`, or nothing where one process trains; what cannot be is refused."""
    total, nodes = int(settings.get("num_devices", 1)), words["nodes"]
    _check_nodes(nodes, total, words["rendezvous"])
    if total == 1:
        _refuse_without_several(words)
        return {}
    num_local = total // nodes
    _check_devices(host, device, num_local)
    _check_batch_norm(device, words)
    return asdict(Several(num_local=num_local, wait_seconds=PATIENCE * timeout, **words))


def _check_nodes(nodes: Any, total: int, rendezvous: str) -> None:
    if type(nodes) is not int or nodes < 1:
        raise UsageError(f"--nodes is {nodes!r}; it must be a whole number of at least 1")
    if total % nodes:
        raise UsageError(f"{total} devices cannot be shared out evenly to {nodes} machines. Name a multiple of {nodes}")
    if nodes > 1:
        host, _, port = rendezvous.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise UsageError(
                f"--rendezvous is {rendezvous!r}; {nodes} machines need one host:port to meet at, as in "
                "--rendezvous node1:29500, the same on all, its host one of them"
            )
    elif rendezvous:
        raise UsageError("--rendezvous is where several machines meet. Say how many with --nodes")


def _check_batch_norm(device: str, words: Mapping[str, Any]) -> None:
    if words["sync_batch_norm"] and device == "cpu":
        raise UsageError("torch synchronises BatchNorm on GPUs alone. Leave --sync-batch-norm out on CPUs")


def _refuse_without_several(words: Mapping[str, Any]) -> None:
    for name in ("restarts", "sync_batch_norm", "shard"):
        if words[name]:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for runs on several devices. Add --devices 2 or more, or leave it out")


def refuse_without_effect(named: Mapping[str, Any], num_devices: int, words: Mapping[str, Any]) -> None:
    """Refuse options of DistributedDataParallel, `named` for this run, where nothing would heed them."""
    for option, is_given in (
        ("--bucket-cap-mb", named.get("bucket_cap_mb") is not None),
        ("--no-broadcast-buffers", named.get("broadcast_buffers") is False),
        ("--find-unused-parameters", words["find_unused_parameters"]),
    ):
        if is_given and num_devices == 1:
            raise UsageError(f"{option} is for runs on several devices. Add --devices 2 or more, or leave it out")
        if is_given and words["shard"]:
            raise UsageError(f"--shard has no use for {option}, an option of DistributedDataParallel. Leave one out")


def fits_here(host: Host, device: str, num_local: int) -> bool:
    """Whether this machine has so many devices; on a CPU, cores."""
    return num_local == 1 or num_local <= (len(host.gpus) if device == "cuda" else host.limits.num_cores)


def _check_devices(host: Host, device: str, num_local: int) -> None:
    if device == "cuda" and num_local > len(host.gpus):
        raise UsageError(
            f"{num_local} GPUs were asked for, and {len(host.gpus)} can be seen here. Use --devices {len(host.gpus)}, "
            "or look at CUDA_VISIBLE_DEVICES"
        )
    if device == "cpu" and num_local > host.limits.num_cores:
        raise UsageError(
            f"{num_local} processes were asked for, each of which needs a core, and there is room for "
            f"{host.limits.num_cores}: {host.limits.cores_because}. Use --devices {host.limits.num_cores}"
        )


def refuse_unshared(description: JobDescription, request: Train) -> None:
    """Refuse a run whose updates legroom cannot share out."""
    if description.own_step:
        raise UsageError(
            "This job has its own step, so legroom cannot average its gradients over devices. Give it a loss and an "
            "optimizer, or train it with --devices 1"
        )
    if description.carries_state:
        raise UsageError(CARRIES_STATE)
    if request.several["shard"] and request.settings["precision"] == "fp16":
        raise UsageError(
            "--shard trains in fp32 or bf16; with fp16 the scale of the loss would have to be shared out too"
        )
    if request.several["shard"] and request.settings.get("compile"):
        raise UsageError("--shard and --compile were not made to work together. Leave one of them out")


def update_of(settings: Mapping[str, Any]) -> int:
    """Samples of an update.

    >>> update_of({"batch_size": 64, "accumulation_steps": 2, "num_devices": 4})
    512
    """
    return int(settings["batch_size"]) * int(settings["accumulation_steps"]) * int(settings["num_devices"])


def batch_of(effective: Any, settings: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """The batch of each device that makes an update of so many samples."""
    if type(effective) is not int or effective < 1:
        raise UsageError(f"--effective-batch is {effective!r}; it must be a whole number of at least 1")
    if "batch_size" in given:
        raise UsageError("--effective-batch and --batch-size both say how large a batch is; give one")
    passes, devices = int(settings["accumulation_steps"]), int(settings["num_devices"])
    if effective % (passes * devices):
        below = effective // (passes * devices) * passes * devices
        raise UsageError(
            f"An update of {effective:,} samples cannot be shared out evenly: {devices} devices with {passes} "
            f"pass{'es' if passes > 1 else ''} each need a multiple of {passes * devices}, such as "
            f"{below or passes * devices:,}"
        )
    return effective // (passes * devices)


def norm_note(has_norms: bool, before: int, after: int, *, several: bool = True) -> list[str]:
    """How many samples BatchNorm sees, where the batch of one pass on one device changes; `several`: of devices.

    >>> norm_note(True, 64, 64), norm_note(False, 64, 16)
    ([], [])
    """
    if not has_norms or after == before:
        return []
    ways = ". --sync-batch-norm sees those of all devices, for messages in each pass" if several else ""
    return [
        f"BatchNorm would see {after:,} samples instead of {before:,}: it normalises over the batch of one pass on one "
        f"device, so the loss itself changes (P. Goyal et al., 2017, section 2.3){ways}"
    ]
