"""The parent's side of measuring: asks a worker, unless the logbook already knows."""

from collections.abc import Callable, Mapping
from types import TracebackType

from legroom.clock import Clock, monotonic
from legroom.engines.base import Engine, Worker
from legroom.errors import OutOfMemory
from legroom.job import JobAddress
from legroom.logbook import Logbook
from legroom.records import PhasePeaks, Request, Result, StepPeaks

Progress = Callable[[str, float], None]
"""Called with what happens now and the share of the work done, 0 to 1."""

STEADY_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""glibc then gives every large block back at once, so that a peak does not depend on what ran before.

Measured with this, the slope is stable to 0.1 %; without it, it depends on history. Proofs run without it.
"""


class Session:
    """Asks requests of one job: one shared worker for what can be shared, a fresh one for each proof."""

    def __init__(
        self,
        address: JobAddress,
        engine: Engine,
        logbook: Logbook,
        *,
        progress: Progress = lambda message, share: None,
        clock: Clock = monotonic,
    ) -> None:
        self.address, self.engine, self.logbook = address, engine, logbook
        self.progress, self.clock = progress, clock
        self._shared: Worker | None = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._drop_shared()
        self.logbook.close()

    def ask(self, request: Request) -> Result:
        """The answer from the logbook, or measured now and written down before this returns."""
        known = self.logbook.recall(request)
        if known is not None:
            return known
        started = self.clock()
        result = self._measure(request)
        self.logbook.record(request, result, self.clock() - started)
        return result

    def peaks(self, request: StepPeaks) -> PhasePeaks:
        """The answer to a question about memory; running out of it is one."""
        result = self.ask(request)
        assert isinstance(result, PhasePeaks)
        return result

    def _measure(self, request: Request) -> Result:
        try:
            return self._ask_worker(request)
        except OutOfMemory:
            self._drop_shared()
            if not isinstance(request, StepPeaks):
                raise
            return PhasePeaks(outcome="out_of_memory")
        except Exception:
            self._drop_shared()
            raise

    def _ask_worker(self, request: Request) -> Result:
        if request.fresh:
            # Both would hold memory at once, and the proof has to see the machine as training will.
            self._drop_shared()
            worker = self._start({})
            try:
                return worker.ask(request)
            finally:
                worker.close()
        if self._shared is None:
            self._shared = self._start(STEADY_MALLOC)
        return self._shared.ask(request)

    def _start(self, environment: Mapping[str, str]) -> Worker:
        return self.engine.start(self.address, environment)

    def _drop_shared(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None
