"""SEE: runs the user's code to measure it, always in a child process.

`serve` is the child's side: it knows which probe answers which request. `Session` (session.py) is the parent's.
"""

from typing import TYPE_CHECKING

from legroom.records import (
    Describe,
    MeasureDevice,
    MeasurePadding,
    RaceLoaders,
    ReadCard,
    ReadCold,
    Request,
    Result,
    StepPeaks,
    TimeSteps,
    TraceMemory,
    Train,
)

if TYPE_CHECKING:
    from legroom.probes.bench import Bench


def serve(request: Request, bench: "Bench") -> Result:
    """Answer one request in this process; each probe imports torch only here, in the child."""
    match request:
        case Describe():
            from legroom.probes.description import describe

            return describe(bench)
        case StepPeaks():
            from legroom.probes.peaks import measure_peaks

            return measure_peaks(request, bench)
        case ReadCard():
            from legroom.probes.meters import read_card

            return read_card()
        case TraceMemory():
            from legroom.probes.estimate import estimate_memory

            return estimate_memory(request, bench)
        case TimeSteps():
            from legroom.probes.step_speed import time_steps

            return time_steps(request, bench)
        case MeasurePadding():
            from legroom.probes.padding import measure_padding

            return measure_padding(request, bench)
        case Train():
            from legroom.probes.trial import train_job

            return train_job(request, bench)
        case RaceLoaders():
            from legroom.probes.loader_race import race_loaders

            return race_loaders(request, bench)
        case ReadCold():
            from legroom.probes.cold_read import read_cold

            return read_cold(request, bench)
        case MeasureDevice():
            from legroom.probes.device_peak import measure_device
            from legroom.records import DeviceSpeed

            return DeviceSpeed(values=measure_device(request.device))
