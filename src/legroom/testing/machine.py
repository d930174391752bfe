"""A machine that obeys planted laws: what legroom finds on it can be compared with the truth."""

import random
from dataclasses import asdict
from typing import Any

from legroom.engines.base import Child, Listen, ignore
from legroom.environments import Environment
from legroom.errors import OutOfMemory
from legroom.job import JobAddress, Settings
from legroom.questions.loading.fake import FakeLoaders
from legroom.questions.loading.records import RaceLoaders, ReadCold
from legroom.questions.memory.allocator.ledger import RULES
from legroom.questions.memory.records import PhasePeaks, StepPeaks, TracedMemory, TraceMemory
from legroom.questions.speed.fake import FakeSteps
from legroom.questions.speed.records import MeasurePadding, TimeSteps
from legroom.requests import CardMemory, Describe, DeviceSpeed, JobDescription, MeasureDevice, ReadCard, Request
from legroom.testing.clock import FakeClock
from legroom.training.records import Evaluated, Train, Trained


class FakeMachine:
    """An engine whose children answer from planted laws instead of running anything.

    >>> machine = FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6)
    >>> child = machine.start(JobAddress(text="digits"), {})
    >>> child.ask(StepPeaks(device="cpu", batch_size=100)).training_bytes()
    500000000
    """

    def __init__(
        self,
        *,
        bytes_per_sample: float = 1e6,
        fixed_bytes: float = 300e6,
        update_bytes: float = 0.0,
        evaluation_share: float = 0.3,
        proof_factor: float = 1.0,
        typical_share: float = 1.0,
        noise_bytes: float = 0.0,
        limit_bytes: float | None = None,
        reserve_bytes: float = 0.0,
        retries_from: int | None = None,
        fixed_most: int | None = None,
        gradient_bytes: float = 0.0,
        num_samples: int | None = 10_000,
        largest_loader_batch: int | None = None,
        precision: str = "fp32",
        chance: float | None = None,
        loaders: FakeLoaders | None = None,
        steps: FakeSteps | None = None,
        seed: int = 0,
        clock: FakeClock | None = None,
    ) -> None:
        self.bytes_per_sample, self.fixed_bytes = bytes_per_sample, fixed_bytes
        self.update_bytes = update_bytes
        """Peak of the update, whatever the batch: temporaries as large as the parameters."""
        self.evaluation_share = evaluation_share
        """Bytes of a sample in evaluation, as a share of those in training."""
        self.proof_factor = proof_factor
        """How much more a sample takes with the plain allocator."""
        self.typical_share = typical_share
        """Bytes of a typical sample, as a share of the largest's; below 1 the job is uneven."""
        self.noise_bytes, self.limit_bytes = noise_bytes, limit_bytes
        self.reserve_bytes = reserve_bytes
        """What a GPU's allocator holds above what it hands out."""
        self.retries_from = retries_from
        """The smallest batch that runs only because the allocator asks again."""
        self.fixed_most = fixed_most
        """The largest batch with torch's default allocator, which takes memory in proportion; None: no difference."""
        self.gradient_bytes = gradient_bytes
        """What is held between the passes of one update."""
        self.num_samples, self.largest_loader_batch = num_samples, largest_loader_batch
        self.precision = precision
        """Of the job's own settings."""
        self.chance = chance
        """The score of a model that learned nothing; a run of 100 updates scores 0.5."""
        self.clock = clock or FakeClock()
        self.asked: list[Request[Any]] = []
        """Every request that reached a child, in order."""
        self.num_started = self.num_closed = 0
        self.loaders = loaders or FakeLoaders()
        self.steps = steps or FakeSteps()
        self._random = random.Random(seed)

    def start(self, address: JobAddress, environment: Environment) -> Child:
        """A child; it takes two seconds to start."""
        self.clock.advance(2.0)
        self.num_started += 1
        self.steps.start()
        return _FakeChild(self)

    def peak_bytes(self, batch_size: int, *, proof: bool = False) -> float:
        """The planted truth without noise."""
        slope = self.bytes_per_sample * (self.proof_factor if proof else 1.0)
        return max(self.fixed_bytes + slope * batch_size, self.update_bytes)

    def answer(self, request: Request[Any]) -> Any:
        """What a child says."""
        self.asked.append(request)
        match request:
            case Describe():
                return self._description()
            case MeasureDevice():
                return DeviceSpeed(values={"matmul_fp32_flops_per_second": {"median": 1e12, "spread": 0.0}})
            case StepPeaks():
                return self._peaks(request)
            case ReadCard():
                total = int(self.limit_bytes or 80 * 2**30)
                return CardMemory(name="Planted", total_bytes=total, free_bytes=total, capability=9)
            case TraceMemory():
                return TracedMemory(estimate=self._estimate(request))
            case Train():
                return self._trained(request)
            case RaceLoaders():
                self.clock.advance(request.num_rounds * len(request.lanes) * request.window_seconds)
                return self.loaders.race(request)
            case ReadCold():
                return self.loaders.cold(request)
            case TimeSteps():
                self.clock.advance(request.seconds)
                return self.steps.time(request)
            case MeasurePadding():
                return self.steps.pad(request)
        raise AssertionError(f"nothing is planted for {request.kind}")

    def _peaks(self, request: StepPeaks) -> PhasePeaks:
        self.clock.advance(0.01 * request.num_steps)
        if self.largest_loader_batch is not None and request.batch_size > self.largest_loader_batch:
            return PhasePeaks(outcome="no_batch")
        share = self.typical_share if request.samples == "typical" else 1.0
        slope = self.bytes_per_sample * share * (self.proof_factor if request.proof else 1.0)
        held = self.gradient_bytes if request.accumulation_steps > 1 else 0.0
        phases = {
            "forward": self.fixed_bytes + 0.8 * slope * request.batch_size,
            "backward": self.fixed_bytes + slope * request.batch_size + held,
            "update": max(self.update_bytes, self.fixed_bytes),
            "evaluation": self.fixed_bytes + self.evaluation_share * slope * request.batch_size,
        }
        in_proportion = self._in_proportion(request)
        asks_again = self.retries_from is not None and request.batch_size >= self.retries_from and not in_proportion
        if request.device != "cpu":
            # Asked again, it has given back what it held beyond the storages themselves.
            more = 0.0 if asks_again else self.reserve_bytes
            phases["reserved"] = in_proportion or max(phases.values()) + more
            self._refuse(phases["reserved"], request.cap_bytes)
        if request.eval_batch_size is not None:
            phases["large_evaluation"] = self.fixed_bytes + self.evaluation_share * slope * request.eval_batch_size
        self._refuse(max(phases.values()), self.limit_bytes)
        noisy = {name: int(value + self._random.uniform(0, self.noise_bytes)) for name, value in phases.items()}
        return PhasePeaks(
            outcome="retried" if asks_again else "measured",
            phase_bytes=noisy,
            num_repeats=request.num_steps,
            step_seconds=0.01,
        )

    def _in_proportion(self, request: StepPeaks) -> float | None:
        """What the default allocator takes, where it differs."""
        if self.fixed_most is None or request.allocator != "default" or request.cap_bytes is None:
            return None
        return request.cap_bytes * request.batch_size / (self.fixed_most + 0.5)

    def _trained(self, request: Train) -> Trained:
        """A run whose loss falls as 1 / (1 + steps / 100), evaluated once, at its end."""
        num_steps = request.num_steps or 100
        self.clock.advance(0.01 * num_steps)
        loss = 1 / (1 + num_steps / 100)
        found = Evaluated(
            step=num_steps, epoch=1.0, seconds=0.01 * num_steps, loss=loss, score=1 - loss, train_loss=loss
        )
        return Trained(
            stopped_because="finished",
            num_steps=num_steps,
            num_epochs=1.0,
            num_samples=num_steps * int(request.settings["batch_size"]),
            seconds=0.01 * num_steps,
            samples_per_second=100.0 * int(request.settings["batch_size"]),
            data_wait_share=0.0,
            evaluations=[found],
            last_loss=loss,
            learning_rate=float(request.settings["learning_rate"]),
            goal="max",
            chance=self.chance,
        )

    def _refuse(self, needed_bytes: float, limit_bytes: float | None) -> None:
        if limit_bytes is not None and needed_bytes > limit_bytes:
            raise OutOfMemory("planted: more than there is")

    def _estimate(self, request: TraceMemory) -> dict[str, Any]:
        held = self.gradient_bytes if request.accumulation_steps > 1 else 0.0
        backward = {
            "fixed_bytes": self.fixed_bytes + held,
            "bytes_per_sample": self.bytes_per_sample,
            "phase": "backward",
            "parts": {"weights": [self.fixed_bytes, 0.0], "activations": [0.0, self.bytes_per_sample]},
        }
        evaluation = {**backward, "bytes_per_sample": self.evaluation_share * self.bytes_per_sample}
        rest = {"rules": RULES, "method": "fake", "reason": "", "batch_sizes": [8, 16], "notes": [], "seconds": 0.1}
        return {"train": [backward], "evaluation": [evaluation], "reserves": {}, **rest}

    def _description(self) -> JobDescription:
        largest = int(self.bytes_per_sample / 10)
        smallest = int(largest * self.typical_share)
        return JobDescription(
            model_name="Planted",
            num_parameters=1000,
            num_trainable=1000,
            parameter_bytes=4000,
            num_samples=self.num_samples,
            num_valid_samples=None,
            sample_bytes=(smallest, smallest, largest),
            num_scanned=64,
            uneven=self.typical_share < 1.0,
            own_step=False,
            own_loader=self.largest_loader_batch is not None,
            widest_batch=self.largest_loader_batch,
            has_score=False,
            baseline=asdict(Settings(precision=self.precision)),
            torch_version="planted",
        )


class _FakeChild:
    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine

    def ask(self, request: Request[Any], listen: Listen = ignore) -> Any:
        return self.machine.answer(request)

    def close(self) -> None:
        self.machine.num_closed += 1
