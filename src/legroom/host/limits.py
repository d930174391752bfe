"""Reads what this process may use of its host: cores, memory and shared memory, each with the reason."""

import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from legroom.units import format_bytes

ROOT = Path("/")
LOOK_SECONDS = 0.4
"""For which other programs are watched: less would take the end of one that starts legroom for a load."""
SLURM_NAMES = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """What this process may use of its host; the tightest of all limits found."""

    num_cores: int
    """Whole cores it can keep busy, at least 1; half a core of quota is rounded away, since it only throttles."""
    cores_because: str
    memory_bytes: int
    """Host memory it may ever hold, together with what shares its control group."""
    available_bytes: int
    """Host memory it can take now, counting file cache as free."""
    memory_because: str
    shm_bytes: int | None
    """Free bytes of /dev/shm, through which loader workers hand over batches; None where there is none."""
    notes: tuple[str, ...] = ()
    """What is absent or could not be read, as sentences."""


def read_limits(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> HostLimits:
    """The limits on cores and memory that hold for this process."""
    quota, cores_because = min(_core_bounds(root, environ), key=lambda bound: bound[0])
    num_cores = max(1, int(quota))
    bounds = list(_memory_bounds(root, environ, num_cores))
    limit, _, memory_because = min(bounds, key=lambda bound: bound[0])
    shm = root / "dev/shm"
    return HostLimits(
        num_cores=num_cores,
        cores_because=cores_because,
        memory_bytes=limit,
        available_bytes=max(0, min(available for _, available, _ in bounds)),
        memory_because=memory_because,
        shm_bytes=shutil.disk_usage(shm).free if shm.is_dir() else None,
        notes=tuple(_notes(root, environ)),
    )


def read_busy_cores() -> float:
    """How many of the cores that this process may use are busy, over a moment in which it waits."""
    import psutil

    shares = psutil.cpu_percent(interval=LOOK_SECONDS, percpu=True)
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(len(shares))
    return float(sum(shares[core] for core in allowed if core < len(shares))) / 100


def _core_bounds(root: Path, environ: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """(cores, reason) of every limit; the machine's own comes first and so wins a tie."""
    num_all, num_allowed = os.cpu_count() or 1, _num_allowed_cores()
    yield num_all, f"the machine has {num_all} cores"
    yield num_allowed, f"this process may run on {num_allowed} of the machine's {num_all} cores (affinity)"
    for folder in _control_groups(root, "cpu"):
        cores = _quota_cores(folder)
        yield cores, f"the control group {folder} has a quota of {cores:g} cores"
    for name in SLURM_NAMES[:2]:
        if cores := _slurm_number(environ, name) or 0:
            yield cores, f"Slurm granted {cores} cores ({name})"


def _num_allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    import psutil

    process = psutil.Process()  # Windows has affinity by another call, macOS has none.
    return len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else os.cpu_count() or 1


def _quota_cores(folder: Path) -> float:
    """Cores' worth of time the group may use; "max" (version 2) and -1 (version 1) mean no limit."""
    first_version = [_read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()]
    quota, period, *_ = [*(_read(folder / "cpu.max").split() or first_version), "", ""]
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else math.inf


def _memory_bounds(root: Path, environ: Mapping[str, str], num_cores: int) -> Iterator[tuple[int, int, str]]:
    """(limit, available, reason) of every limit on host memory, in bytes."""
    total, available = _physical_bytes(root)
    yield total, available, f"the machine has {format_bytes(total)}"
    for folder in _control_groups(root, "memory"):
        limit = _group_limit_bytes(folder)
        # Limits no machine reaches stand for "none": version 1 writes 2**63 less a page.
        if limit is not None and limit < 2**62:
            free = limit - _group_used_bytes(folder)
            yield limit, free, f"the control group {folder} is limited to {format_bytes(limit)}"
    num_cpus = _slurm_number(environ, "SLURM_CPUS_ON_NODE") or num_cores
    for name, factor in (("SLURM_MEM_PER_NODE", 1), ("SLURM_MEM_PER_CPU", num_cpus)):
        # Slurm counts in MiB; 0 asks for all of the node's memory.
        if granted := (_slurm_number(environ, name) or 0) * factor * 2**20:
            yield granted, granted, f"Slurm granted {format_bytes(granted)} ({name})"


def _physical_bytes(root: Path) -> tuple[int, int]:
    fields = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE))
    if len(fields) == 2:
        return int(fields["MemTotal"]) * 1024, int(fields["MemAvailable"]) * 1024
    import psutil

    memory = psutil.virtual_memory()
    return memory.total, memory.available


def _group_limit_bytes(folder: Path) -> int | None:
    """The tightest limit of one group. Past memory.high it is not killed but slowed to a crawl: a limit too."""
    words = [_read(folder / name).strip() for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
    return min((int(word) for word in words if word.isdigit()), default=None)


def _group_used_bytes(folder: Path) -> int:
    """Bytes the group holds and cannot give back: inactive file cache is dropped before anything is refused."""
    used = (_read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")).strip()
    stat = dict(line.split() for line in _read(folder / "memory.stat").splitlines() if line.count(" ") == 1)
    # Version 1 counts children only in the total_ fields, version 2 in the plain ones.
    reclaimable = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
    return max(0, int(used) - reclaimable) if used.isdigit() else 0


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """This process's group and all groups around it, innermost first: every one of them limits."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount_root, top in _mounts(root, controller if controllers else ""):
            # A container may see its own group mounted as the top, or a group that lies outside of what it sees.
            place = PurePosixPath(group)
            folder = top / place.relative_to(mount_root) if place.is_relative_to(mount_root) else top
            yield folder
            while folder != top:
                folder = folder.parent
                yield folder


def _mounts(root: Path, controller: str) -> Iterator[tuple[str, Path]]:
    """(root within the hierarchy, folder) of each mount of a version 1 controller, or of version 2 where it is ""."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        mount, _, system = line.partition(" - ")  # proc(5): optional fields end with a lone dash
        kind, _, options = system.split(" ", 2)
        if (kind == "cgroup" and controller in options.split(",")) or (kind == "cgroup2" and not controller):
            yield mount.split()[3], root / mount.split()[4].lstrip("/")


def _slurm_number(environ: Mapping[str, str], name: str) -> int | None:
    return int(environ[name]) if environ.get(name, "").isdigit() else None


def _notes(root: Path, environ: Mapping[str, str]) -> Iterator[str]:
    if not (root / "proc/self/cgroup").is_file():
        yield "No control groups were found on this system: quotas and memory limits were not looked for."
    if not (root / "dev/shm").is_dir():
        yield "There is no /dev/shm: the shared memory of loader workers was not looked at."
    for name in SLURM_NAMES:
        if name in environ and _slurm_number(environ, name) is None:
            yield f"{name} is {environ[name]!r}, which is no number: it was left out."


def _read(path: Path) -> str:
    """The text of a kernel file, empty where it is absent or closed to us."""
    try:
        return path.read_text()
    except OSError:
        return ""
