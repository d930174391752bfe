"""SEE: runs the user's code to measure it, always in a child process.

`serve` is the child's side: it knows which probe answers which request. `Session` (session.py) is the parent's.
"""

from typing import TYPE_CHECKING

from legroom.records import Describe, MeasureDevice, ReadCard, Request, Result, StepPeaks, TraceMemory

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
        case MeasureDevice():
            from legroom.probes.device_peak import measure_device
            from legroom.records import DeviceSpeed

            return DeviceSpeed(values=measure_device(request.device))
