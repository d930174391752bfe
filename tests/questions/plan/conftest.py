"""A machine on which the best batch, its rate and the time to the target are known."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from legroom import api
from legroom.job import Settings
from legroom.questions.devices.fake import FakeRing
from legroom.questions.rate.fake import STEP_SECONDS, FakeLearner, FakeLearning
from legroom.questions.rate.records import Grown, RunTrial
from legroom.questions.train.fake import FakeRuns
from legroom.testing import FakeLoaders, FakeMachine, FakeSteps, plant_gpu, plant_host
from legroom.training.records import Evaluated, Trained

LEARNER = FakeLearner(s_min=120, b_crit=200, best_rate=0.1, noise=0.0, diverges_above=1.0, rate_exponent=1.0)
OWN = Settings(batch_size=32, learning_rate=0.003, num_epochs=20)
NUM_SAMPLES = 10_000
EVALUATION = 0.01


def step_seconds(size):
    """A floor that a batch of a hundred samples doubles."""
    return 0.01 + 0.0001 * size


class LearnerRuns(FakeRuns):
    """Runs of the same learner that rates are sought with, at a constant rate."""

    def __init__(self, learner, seconds, ring):
        super().__init__()
        self.learner, self.seconds, self.ring = learner, seconds, ring

    def train(self, request):
        size, rate = int(request.settings["batch_size"]), float(request.settings["learning_rate"])
        learner, step = replace(self.learner, seed=int(request.settings["seed"])), self.seconds(size)
        if num := request.several.get("num_local"):
            step = self.ring.contention * self.ring.compute(size) + self.ring.exposed(num, size)
            size *= num
        most = request.num_steps or int(request.settings["num_epochs"]) * (NUM_SAMPLES // size)
        every, found, why = request.evaluate_steps or most, [], "finished"
        for done in range(1, most + 1):
            learner.step(rate=rate, batch_size=size)
            if done % every == 0 or done == most:
                loss, seconds = learner.evaluate(), done * step + EVALUATION * (len(found) + 1)
                found.append(
                    Evaluated(step=done, epoch=0.0, seconds=seconds, loss=loss, score=1 / (1 + loss), train_loss=loss)
                )
                if request.target and loss <= request.target[1]:
                    why = "target"
                    break
                if request.max_seconds and seconds > request.max_seconds:
                    why = "budget"
                    break
        return Trained(
            stopped_because=why,
            num_steps=done,
            num_epochs=done * size / NUM_SAMPLES,
            num_samples=done * size,
            seconds=found[-1].seconds,
            samples_per_second=size / step,
            data_wait_share=0.0,
            evaluations=found,
            last_loss=found[-1].loss,
            learning_rate=rate,
            goal="max",
        )


class PacedLearning(FakeLearning):
    """Trunks whose updates take as long as steps do."""

    def __init__(self, learner, seconds):
        super().__init__(learner)
        self.seconds = seconds

    def answer(self, request):
        step = self.seconds(int(request.settings["batch_size"]))
        if isinstance(request, RunTrial):
            return self.run(request, step / STEP_SECONDS)
        found, seconds = super().answer(request)
        if isinstance(found, Grown):
            found = replace(found, grown_seconds=found.grown_steps * step)
        return found, seconds

    def run(self, request, slower):
        """A run by whole settings, whose updates take so many times as long as planted ones do."""
        most = None if request.max_seconds is None else request.max_seconds / slower
        found, seconds = super().answer(replace(request, max_seconds=most))
        paced = replace(found, seconds=slower * found.seconds, samples_per_second=found.samples_per_second / slower)
        return paced, slower * seconds


def plant_ring(**words):
    """Devices of which each takes what `step_seconds` says, on a fast link."""
    planted = {"fixed_seconds": 0.004, "sample_seconds": 0.0001 / 1.5, "gradient_bytes": (1_000_000,) * 4}
    return FakeRing(**{**planted, "bandwidth": 1e10, **words})


def plant(*, learner=LEARNER, own=OWN, seconds=step_seconds, utilisation=None, ring=None, **memory):
    """The machine: a loader that costs nothing, much memory, and the learner."""
    ring = ring or plant_ring()
    return FakeMachine(
        PacedLearning(learner, seconds),
        ring,
        steps=FakeSteps(seconds=seconds, utilisation=utilisation, bytes_per_sample=1e4),
        loaders=FakeLoaders(num_cores=4),
        runs=LearnerRuns(learner, seconds, ring),
        **{"bytes_per_sample": 1e4, "num_samples": NUM_SAMPLES, "baseline": own, **memory},
    )


def ask(out, machine, *, resume=False, num_gpus=0, told=lambda sentence: None, **words):
    """A plan to a loss that the learner meets but for noise."""
    host = plant_host(num_cores=8, gpus=(plant_gpu(),) * num_gpus) if num_gpus else plant_host()
    run = api.Run(out=out, engine=machine, host=host, clock=machine.clock, resume=resume, found=told)
    words = {"target": "loss=0.12", "budget": 3000.0, "device": "cuda" if num_gpus else "cpu", **words}
    return api.plan("digits", run=run, **words)


@pytest.fixture(scope="session")
def planted():
    """All of the above, for tests."""
    return SimpleNamespace(
        **{
            name: globals()[name]
            for name in ("LEARNER", "OWN", "NUM_SAMPLES", "step_seconds", "plant", "plant_ring", "ask")
        }
    )
