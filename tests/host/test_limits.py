"""Planted machines: every limit is found where the kernel or Slurm puts it, and the tightest wins."""

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from legroom import host
from legroom.host import limits
from legroom.host.gpus import read_gpus
from legroom.host.limits import read_busy_cores, read_limits

GIB, MIB = 2**30, 2**20
V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
V1_MOUNTS = (
    "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "36 31 0:33 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
)
V1_UNLIMITED = "9223372036854771712\n"


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """A 16-core machine with 64 GiB, 48 of them available, whose files a test plants under its root."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(limits, "_num_allowed_cores", lambda: 16)

    def write(files: dict[str, str]) -> Path:
        meminfo = f"MemTotal:  {64 * MIB} kB\nMemFree: 1 kB\nMemAvailable:  {48 * MIB} kB\n"
        for name, text in {"proc/meminfo": meminfo, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def v2(group: str, files: dict[str, str]) -> dict[str, str]:
    here = {"proc/self/cgroup": f"0::{group}\n", "proc/self/mountinfo": V2_MOUNT}
    return here | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}


def v1(group: str, files: dict[str, str], mount_root: str = "/") -> dict[str, str]:
    text = f"9:name=systemd:/\n4:memory:{group}\n3:cpuacct,cpu:{group}\n0::/\n"
    mounts = V1_MOUNTS.format(root=mount_root) + V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
    here = {"proc/self/cgroup": text, "proc/self/mountinfo": mounts}
    return here | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}


def test_unlimited_machine_gives_what_the_machine_has(plant):
    found = read_limits(plant(v2("/user", {"user/cpu.max": "max 100000\n", "user/memory.max": "max\n"})), {})
    assert (found.num_cores, found.memory_bytes, found.available_bytes) == (16, 64 * GIB, 48 * GIB)
    assert found.cores_because == "the machine has 16 cores"
    assert found.memory_because == "the machine has 64.0 GiB"


def test_v2_quota_limits_cores(plant):
    found = read_limits(plant(v2("/job", {"job/cpu.max": "350000 100000\n"})), {})
    assert found.num_cores == 3
    assert "quota of 3.5 cores" in found.cores_because


@pytest.mark.parametrize("quota", ["1000", "50000", "199999"])
def test_quota_below_two_cores_is_one_core(plant, quota):
    assert read_limits(plant(v2("/job", {"job/cpu.max": f"{quota} 100000\n"})), {}).num_cores == 1


@pytest.mark.parametrize(("inner", "outer"), [("200000", "800000"), ("800000", "200000")])
def test_tightest_of_nested_v2_quotas_wins(plant, inner, outer):
    files = {"a/b/c/cpu.max": f"{inner} 100000\n", "a/b/cpu.max": "max 100000\n", "a/cpu.max": f"{outer} 100000\n"}
    found = read_limits(plant(v2("/a/b/c", files)), {})
    assert found.num_cores == 2
    assert ("/a/b/c " if inner == "200000" else "/a ") in found.cores_because


def test_sibling_group_does_not_limit(plant):
    files = {"mine/cpu.max": "max 100000\n", "other/cpu.max": "100000 100000\n", "other/memory.max": "1048576\n"}
    found = read_limits(plant(v2("/mine", files)), {})
    assert (found.num_cores, found.memory_bytes) == (16, 64 * GIB)


def test_v2_available_counts_inactive_file_cache_as_free(plant):
    stat = f"anon {3 * GIB}\nfile {4 * GIB}\ninactive_file {2 * GIB}\n"
    files = {"job/memory.max": f"{8 * GIB}\n", "job/memory.current": f"{7 * GIB}\n", "job/memory.stat": stat}
    found = read_limits(plant(v2("/job", files)), {})
    assert (found.memory_bytes, found.available_bytes) == (8 * GIB, 3 * GIB)
    assert "limited to 8.0 GiB" in found.memory_because


def test_full_outer_group_bounds_what_is_available(plant):
    files = {"a/b/memory.max": f"{8 * GIB}\n", "a/b/memory.current": "0\n"}
    files |= {"a/memory.max": f"{20 * GIB}\n", "a/memory.current": f"{19 * GIB}\n"}
    found = read_limits(plant(v2("/a/b", files)), {})
    assert (found.memory_bytes, found.available_bytes) == (8 * GIB, 1 * GIB)


def test_group_over_its_limit_has_nothing_available(plant):
    files = {"job/memory.max": f"{GIB}\n", "job/memory.current": f"{2 * GIB}\n"}
    assert read_limits(plant(v2("/job", files)), {}).available_bytes == 0


def test_memory_high_limits_below_memory_max(plant):
    files = {"job/memory.max": f"{8 * GIB}\n", "job/memory.high": f"{6 * GIB}\n"}
    assert read_limits(plant(v2("/job", files)), {}).memory_bytes == 6 * GIB


def test_container_that_sees_its_group_as_the_top_is_limited(plant):
    files = {"cpu.max": "400000 100000\n", "memory.max": f"{4 * GIB}\n"}
    found = read_limits(plant(v2("/", files)), {})
    assert (found.num_cores, found.memory_bytes) == (4, 4 * GIB)


def test_group_outside_of_what_is_mounted_is_limited_by_the_mounted_one(plant):
    files = {"memory/memory.limit_in_bytes": f"{3 * GIB}\n"}
    assert read_limits(plant(v1("/elsewhere", files, mount_root="/docker/0123")), {}).memory_bytes == 3 * GIB


def test_group_above_the_namespace_is_limited_by_its_top(plant):
    assert read_limits(plant(v2("/../../job", {"cpu.max": "400000 100000\n"})), {}).num_cores == 4


def test_v1_quota_and_limit_are_found_through_nested_groups(plant):
    files = {
        "cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/a/cpu.cfs_quota_us": "250000\n",
        "cpu,cpuacct/a/cpu.cfs_period_us": "50000\n",
        "memory/a/b/memory.limit_in_bytes": V1_UNLIMITED,
        "memory/a/memory.limit_in_bytes": f"{10 * GIB}\n",
        "memory/a/memory.usage_in_bytes": f"{6 * GIB}\n",
        "memory/a/memory.stat": f"inactive_file 4096\ntotal_inactive_file {GIB}\n",
        "memory/memory.limit_in_bytes": V1_UNLIMITED,
    }
    found = read_limits(plant(v1("/a/b", files)), {})
    assert (found.num_cores, found.memory_bytes, found.available_bytes) == (5, 10 * GIB, 5 * GIB)


def test_v1_unlimited_leaves_the_machine(plant):
    files = {"memory/a/memory.limit_in_bytes": V1_UNLIMITED, "memory/a/memory.usage_in_bytes": f"{GIB}\n"}
    found = read_limits(plant(v1("/a", files)), {})
    assert (found.memory_bytes, found.available_bytes) == (64 * GIB, 48 * GIB)


def test_v1_container_whose_mount_starts_at_its_own_group(plant):
    files = {"memory/sub/memory.limit_in_bytes": f"{2 * GIB}\n", "memory/memory.limit_in_bytes": f"{3 * GIB}\n"}
    root = plant(v1("/docker/0123/sub", files, mount_root="/docker/0123"))
    assert read_limits(root, {}).memory_bytes == 2 * GIB
    root.joinpath("sys/fs/cgroup/memory/sub/memory.limit_in_bytes").write_text(V1_UNLIMITED)
    assert read_limits(root, {}).memory_bytes == 3 * GIB


def test_slurm_cores_and_memory_per_node(plant):
    environ = {"SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "4", "SLURM_MEM_PER_NODE": "2000"}
    found = read_limits(plant({}), environ)
    assert (found.num_cores, found.memory_bytes) == (4, 2000 * MIB)
    assert found.cores_because == "Slurm granted 4 cores (SLURM_CPUS_PER_TASK)"
    assert "SLURM_MEM_PER_NODE" in found.memory_because


def test_slurm_memory_per_cpu_counts_all_cpus_on_the_node(plant):
    environ = {"SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "4", "SLURM_MEM_PER_CPU": "1024"}
    assert read_limits(plant({}), environ).memory_bytes == 8 * GIB


def test_slurm_memory_of_zero_means_the_whole_node(plant):
    assert read_limits(plant({}), {"SLURM_MEM_PER_NODE": "0"}).memory_bytes == 64 * GIB


def test_slurm_word_that_is_no_number_is_left_out_and_said(plant):
    found = read_limits(plant({}), {"SLURM_CPUS_PER_TASK": "many"})
    assert found.num_cores == 16
    assert any("SLURM_CPUS_PER_TASK is 'many'" in note for note in found.notes)


def test_absent_control_groups_and_shared_memory_are_said(plant):
    found = read_limits(plant({}), {})
    assert found.shm_bytes is None
    assert len(found.notes) == 2
    assert any("control groups" in note for note in found.notes)
    assert any("/dev/shm" in note for note in found.notes)


def test_shared_memory_is_what_its_file_system_has_free(plant, monkeypatch):
    monkeypatch.setattr(limits.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=64 * MIB))
    found = read_limits(plant({"dev/shm/some": ""} | v2("/", {})), {})
    assert found.shm_bytes == 64 * MIB
    assert found.notes == ()


def test_system_without_meminfo_asks_psutil(tmp_path):
    import psutil

    assert read_limits(tmp_path, {}).memory_bytes == psutil.virtual_memory().total


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs affinity and two cores"
)
def test_affinity_smaller_than_the_machine_wins():
    code = (
        "import os, json, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "from legroom.host.limits import read_limits; found = read_limits(environ={});"
        "print(json.dumps([found.num_cores, found.cores_because, 'torch' in sys.modules]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    num_cores, because, torch_imported = json.loads(answer)
    assert num_cores == 1
    assert "quota" in because or f"1 of the machine's {os.cpu_count()} cores (affinity)" in because
    assert not torch_imported


class FakeNvml(types.ModuleType):
    """A driver with planted cards: (name, uuid, MIG is on), and one slice of the last card."""

    class NVMLError(Exception):
        pass

    def __init__(self, *cards: tuple[str, str, bool], broken: str = "") -> None:
        super().__init__("pynvml")
        self.cards, self.broken, self.num_open = list(cards), broken, 0
        self.slice = ("Slice", "MIG-1234", False)

    def nvmlInit(self):  # noqa: N802
        if self.broken == "init":
            raise self.NVMLError("Driver Not Loaded")
        self.num_open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.num_open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid != "MIG-1234":
            raise self.NVMLError("Not Found")
        return self.slice

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        if self.broken == "memory":
            raise self.NVMLError("GPU is lost")
        return types.SimpleNamespace(total=24 * GIB, free=20 * GIB)

    def nvmlDeviceGetComputeRunningProcesses(self, card):  # noqa: N802
        if card == self.slice:
            raise self.NVMLError("Not Supported")
        return [types.SimpleNamespace(pid=os.getpid()), types.SimpleNamespace(pid=-1)]

    def __getattr__(self, name):
        answers = {
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: self.cards[index],
            "nvmlDeviceGetName": lambda card: card[0],
            "nvmlDeviceGetUUID": lambda card: card[1],
            "nvmlDeviceGetMigMode": lambda card: [int(card[2]), int(card[2])],
            "nvmlDeviceIsMigDeviceHandle": lambda card: card == self.slice,
            "nvmlSystemGetDriverVersion": lambda: "999.1",
        }
        try:
            return answers[name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.fixture
def driver(monkeypatch):
    """Three like cards."""
    fake = FakeNvml(("A", "GPU-aa0", False), ("A", "GPU-aa1", False), ("A", "GPU-bb2", False))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def visible(words: str | None) -> list[str]:
    return [gpu.uuid for gpu in read_gpus({} if words is None else {"CUDA_VISIBLE_DEVICES": words})[0]]


def test_card_is_read_with_memory_driver_and_other_processes(driver):
    gpus, why_none = read_gpus({})
    assert why_none is None
    assert (gpus[2].name, gpus[2].index, gpus[2].driver, gpus[2].note) == ("A", 2, "999.1", "")
    assert (gpus[2].total_bytes, gpus[2].free_bytes, gpus[2].other_processes) == (24 * GIB, 20 * GIB, 1)
    assert driver.num_open == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, ["GPU-aa0", "GPU-aa1", "GPU-bb2"]),
        ("2,0", ["GPU-bb2", "GPU-aa0"]),
        ("GPU-bb,GPU-aa1", ["GPU-bb2", "GPU-aa1"]),
        ("1,9,0", ["GPU-aa1"]),
        ("1,-1,0", ["GPU-aa1"]),
        ("GPU-aa", []),
        ("0,0", []),
        ("", []),
        ("MIG-1234", ["MIG-1234"]),
        ("MIG-none", []),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(driver, words, expected):
    assert visible(words) == expected


def test_visible_cards_are_counted_from_zero(driver):
    assert [gpu.index for gpu in read_gpus({"CUDA_VISIBLE_DEVICES": "2,0"})[0]] == [0, 1]


def test_hidden_cards_are_said(driver):
    assert read_gpus({"CUDA_VISIBLE_DEVICES": ""}) == ([], "CUDA_VISIBLE_DEVICES='' hides all 3 GPUs")


def test_mig_is_noted_on_the_card_and_on_the_slice(driver):
    driver.cards = [("A", "GPU-aa0", True)]
    assert "whole card's" in read_gpus({})[0][0].note
    (piece,), _ = read_gpus({"CUDA_VISIBLE_DEVICES": "MIG-1234"})
    assert "MIG slice" in piece.note
    assert piece.other_processes is None


def test_order_of_unlike_cards_is_noted_unless_it_is_set(driver):
    driver.cards.append(("B", "GPU-cc3", False))
    assert "CUDA_DEVICE_ORDER" in read_gpus({})[0][0].note
    assert read_gpus({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})[0][0].note == ""


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [
        (None, "nvidia-ml-py is not installed"),
        (FakeNvml(broken="init"), "Driver Not Loaded"),
        (FakeNvml(("A", "GPU-aa0", False), broken="memory"), "GPU is lost"),
        (FakeNvml(), "reports no GPU"),
    ],
)
def test_no_cards_come_with_a_reason(monkeypatch, nvml, reason):
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    gpus, why_none = read_gpus({})
    assert gpus == []
    assert reason in (why_none or "")


def test_a_core_that_another_program_keeps_busy_is_seen():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            time.sleep(0.2)
            assert 0.5 < read_busy_cores() <= os.cpu_count()
        finally:
            busy.kill()


def test_the_host_that_is_read_looks_at_busy_cores_when_it_is_asked():
    assert host.read_host().busy_cores is host.read_busy_cores
