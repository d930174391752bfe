"""What every engine must do, as one check to call from a test."""

from legroom.engines.base import Engine
from legroom.job_address import JobAddress
from legroom.questions.memory.records import PhasePeaks, StepPeaks
from legroom.requests import Describe, JobDescription


def check_engine(engine: Engine, address: JobAddress) -> None:
    """Fail unless the engine's children describe the job, serve several sizes, and can be closed twice."""
    child = engine.start(address, {})
    try:
        description = child.ask(Describe())
        assert isinstance(description, JobDescription), f"Describe was answered with {type(description).__name__}"
        assert description.num_trainable > 0, "the job has nothing to train"
        small = child.ask(StepPeaks(device="cpu", batch_size=2))
        large = child.ask(StepPeaks(device="cpu", batch_size=64))
        assert isinstance(small, PhasePeaks), f"StepPeaks was answered with {type(small).__name__}"
        assert isinstance(large, PhasePeaks), "one child must serve several sizes"
        assert small.outcome == large.outcome == "measured", "two samples and 64 must fit"
        assert {"forward", "backward", "update", "evaluation"} <= set(small.phase_bytes), "a phase is missing"
        assert all(value > 0 for value in small.phase_bytes.values()), "a peak must be above zero"
    finally:
        child.close()
    child.close()
