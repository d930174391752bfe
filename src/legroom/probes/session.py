"""The parent's side of measuring: asks a worker, unless the logbook already knows."""

from collections.abc import Callable
from types import TracebackType

from legroom.clock import Clock, monotonic
from legroom.engines.base import Engine, Worker
from legroom.errors import JobRaised, OutOfMemory
from legroom.job import JobAddress
from legroom.logbook import Logbook
from legroom.probes.limits import read_limits
from legroom.records import STEADY_MALLOC, Describe, Environment, JobDescription, PhasePeaks, Request, Result, StepPeaks

ENOUGH_CORES = 4
Progress = Callable[[str, float], None]
"""Called with what happens now and the share of the work done, 0 to 1."""


class Session:
    """Asks requests of one job: one shared worker for what can be shared, a fresh one for each proof."""

    def __init__(
        self,
        address: JobAddress,
        engine: Engine,
        logbook: Logbook,
        *,
        environment: Environment = STEADY_MALLOC,
        progress: Progress = lambda message, share: None,
        clock: Clock = monotonic,
    ) -> None:
        self.address, self.engine, self.logbook = address, engine, logbook
        self.progress, self.clock = progress, clock
        self._shared: Worker | None = None
        self._environment = environment
        """Of the shared worker: that of the questions to come, for requests that any worker can answer."""
        self._spares: dict[tuple[tuple[str, str | None], ...], Worker] = {}
        """Started early, by their environment."""

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and let others write to the folder."""
        self._drop_shared()
        for worker in self._spares.values():
            worker.close()
        self.logbook.close()

    def ask(self, request: Request) -> Result:
        """The answer from the logbook, or measured now and written down before this returns."""
        known = self.logbook.recall(request)
        return known if known is not None else self.measure(request)

    def measure(self, request: Request) -> Result:
        """The answer measured now, whatever the logbook knows, and written down before this returns."""
        started = self.clock()
        result = self._measure(request)
        self.logbook.record(request, result, self.clock() - started)
        return result

    def describe(self, seed: int) -> JobDescription:
        """What the job is."""
        self.progress("reading the job", 0.02)
        result = self.ask(Describe(seed=seed))
        assert isinstance(result, JobDescription)
        return result

    def peaks(self, request: StepPeaks) -> PhasePeaks:
        """The answer to a question about memory; running out of it is one."""
        try:
            result = self.ask(request)
        except JobRaised as error:
            message = f"At a batch of {request.batch_size:,}: {error}"
            raise JobRaised(message, details=error.details, facts={"batch_size": request.batch_size}) from None
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
            return self._ask_fresh(request)
        environment = request.environment
        if self._shared is not None and environment not in (None, self._environment):
            self._drop_shared()
        if self._shared is None:
            self._environment = self._environment if environment is None else environment
            self._shared = self.engine.start(self.address, self._environment)
        return self._shared.ask(request, self.progress)

    def _ask_fresh(self, request: Request) -> Result:
        # Both would hold memory at once, and the proof has to see the machine as training will.
        self._drop_shared()
        environment = request.environment or {}
        worker = self._spares.pop(tuple(environment.items()), None) or self.engine.start(self.address, environment)
        try:
            return worker.ask(request, self.progress)
        finally:
            worker.close()

    def warm(self, environment: Environment) -> None:
        """Start the worker of a fresh request that will come, so that it imports and builds while others measure.

        On few cores it would only slow the others down.
        """
        name = tuple(environment.items())
        if name not in self._spares and read_limits().num_cores >= ENOUGH_CORES:
            self._spares[name] = self.engine.start(self.address, environment)

    def _drop_shared(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None
