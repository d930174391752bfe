"""Reads how busy a GPU is while steps run, by NVML's own figures."""

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from legroom.questions.speed.records import DeviceLoad

WINDOW_SECONDS = 1.0
"""NVML averages over 1/6 to 1 s, depending on the card: what it says earlier is about what ran before."""
HOLD_SECONDS = 1.6
TICK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Reading:
    """What NVML said at one moment."""

    busy: float
    memory_busy: float
    watts: float | None
    clock_hertz: float | None
    throttled: bool


class GpuMonitor:
    """Reads NVML beside what runs. `why_not` says why there is nothing to read."""

    def __init__(self, uuid: str) -> None:
        self.why_not = ""
        self._read: Callable[[], Reading] | None = None
        self._joules: Callable[[], float | None] = lambda: None
        try:
            self._open(uuid)
        except Exception as error:  # NVMLError is known only where the package is; a missing library is an OSError
            self.why_not = f"device utilisation and power: NVML did not answer ({type(error).__name__}: {error})"

    def _open(self, uuid: str) -> None:
        import pynvml as nvml

        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        _read(nvml, handle)  # a slice of a card has no utilisation: it says so here
        self._read = lambda: _read(nvml, handle)
        self._joules = lambda: _try(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3)

    def watch(self, run: Callable[[], None], num_samples: int) -> DeviceLoad:
        """The load while `run` runs through that many samples."""
        readings: list[Reading] = []
        stop = threading.Event()
        thread = threading.Thread(target=self._poll, args=(stop, readings), daemon=True)
        joules, started = self._joules(), time.monotonic()
        thread.start()
        try:
            run()
        finally:
            stop.set()
            thread.join()
        seconds, after = time.monotonic() - started, self._joules()
        spent = after - joules if joules is not None and after is not None else None
        return load_of(readings, spent, seconds, num_samples)

    def _poll(self, stop: threading.Event, readings: list[Reading]) -> None:
        stop.wait(WINDOW_SECONDS)
        while self._read is not None and not stop.wait(TICK_SECONDS):
            reading = _try(self._read)
            if reading is not None:
                readings.append(reading)


def load_of(readings: list[Reading], joules: float | None, seconds: float, num_samples: int) -> DeviceLoad:
    """Means over the readings; energy by the card's own counter, else by its mean power."""
    if not readings:
        return DeviceLoad()
    watts = _mean([reading.watts for reading in readings])
    energy = joules if joules is not None else (None if watts is None else watts * seconds)
    return DeviceLoad(
        utilisation=statistics.fmean(reading.busy for reading in readings),
        memory_utilisation=statistics.fmean(reading.memory_busy for reading in readings),
        watts=watts,
        joules_per_sample=None if energy is None else energy / num_samples,
        clock_hertz=_mean([reading.clock_hertz for reading in readings]),
        throttled=any(reading.throttled for reading in readings),
        num_readings=len(readings),
    )


def _read(nvml: Any, handle: Any) -> Reading:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    reasons = _try(lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))) or 0
    slowed = nvml.nvmlClocksThrottleReasonHwSlowdown | nvml.nvmlClocksThrottleReasonSwThermalSlowdown
    return Reading(
        busy=rates.gpu / 100,
        memory_busy=rates.memory / 100,
        watts=_try(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
        clock_hertz=_try(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6),
        throttled=bool(reasons & slowed),
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _try(read: Callable[[], Any]) -> Any:
    """What the card says, or None where it does not know that figure."""
    try:
        return read()
    except Exception:
        return None
