"""Reads which NVIDIA cards a child process will see, and why there are none."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA card, or slice of one, that a child process will see."""

    name: str
    index: int
    """Its place among the visible ones: torch's `cuda:index`."""
    uuid: str
    total_bytes: int
    free_bytes: int
    driver: str
    other_processes: int | None
    """Processes that compute on it now; None where the driver does not say. Those of other containers may be hidden."""
    note: str = ""
    """What a reader of these numbers should know (MIG, uncertain order); empty where there is nothing."""


def read_gpus(environ: Mapping[str, str] = os.environ) -> tuple[list[Gpu], str | None]:
    """The NVIDIA cards a child process will see, and a sentence saying why there are none."""
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except ImportError:
        return [], "No GPU was looked for: the package nvidia-ml-py is not installed"
    except nvml.NVMLError as error:
        return [], f"No NVIDIA GPU was found: the driver did not answer ({error})"
    try:
        return _read_visible(nvml, environ)
    except nvml.NVMLError as error:
        return [], f"The NVIDIA driver answers but its GPUs could not be read ({error})"
    finally:
        nvml.nvmlShutdown()


def _read_visible(nvml: Any, environ: Mapping[str, str]) -> tuple[list[Gpu], str | None]:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if not handles:
        return [], "The NVIDIA driver is installed but reports no GPU"
    words = environ.get("CUDA_VISIBLE_DEVICES")
    visible = handles if words is None else _select(nvml, handles, words)
    # CUDA counts the fastest card first, the driver goes by bus: among unlike cards the two may differ.
    mixed = len({nvml.nvmlDeviceGetName(handle) for handle in handles}) > 1
    unsure = mixed and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    note = (
        "CUDA may count unlike cards in another order; set CUDA_DEVICE_ORDER=PCI_BUS_ID to be sure." if unsure else ""
    )
    gpus = [_read_gpu(nvml, index, handle, note) for index, handle in enumerate(visible)]
    return gpus, None if gpus else f"CUDA_VISIBLE_DEVICES={words!r} hides all {len(handles)} GPUs"


def _select(nvml: Any, handles: list[Any], words: str) -> list[Any]:
    """What CUDA makes of CUDA_VISIBLE_DEVICES: it stops at the first word it does not know, and a repeat hides all."""
    chosen: dict[str, Any] = {}
    for word in (word.strip() for word in words.split(",")):
        handle = _find(nvml, handles, word)
        if handle is None:
            break
        uuid = nvml.nvmlDeviceGetUUID(handle)
        if uuid in chosen:
            return []
        chosen[uuid] = handle
    return list(chosen.values())


def _find(nvml: Any, handles: list[Any], word: str) -> Any:
    if word.isdigit():
        return handles[int(word)] if int(word) < len(handles) else None
    if word.startswith("MIG-"):
        try:
            return nvml.nvmlDeviceGetHandleByUUID(word)
        except nvml.NVMLError:
            return None
    # CUDA takes any beginning of a uuid that only one card has.
    found = [handle for handle in handles if word and nvml.nvmlDeviceGetUUID(handle).startswith(word)]
    return found[0] if len(found) == 1 else None


def _read_gpu(nvml: Any, index: int, handle: Any, note: str) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(
        name=nvml.nvmlDeviceGetName(handle),
        index=index,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        total_bytes=memory.total,
        free_bytes=memory.free,
        driver=nvml.nvmlSystemGetDriverVersion(),
        other_processes=_num_other_processes(nvml, handle),
        note=" ".join(filter(None, (_slice_note(nvml, handle), note))),
    )


def _num_other_processes(nvml: Any, handle: Any) -> int | None:
    try:
        processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return len([process for process in processes if process.pid != os.getpid()])
    except nvml.NVMLError:
        return None


def _slice_note(nvml: Any, handle: Any) -> str:
    try:
        if nvml.nvmlDeviceIsMigDeviceHandle(handle):
            return "This is a MIG slice of a card; a process sees one slice at a time."
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            return "MIG splits this card: the bytes are the whole card's. Put a slice in CUDA_VISIBLE_DEVICES=MIG-..."
    except nvml.NVMLError:  # cards without MIG say "not supported"
        pass
    return ""
