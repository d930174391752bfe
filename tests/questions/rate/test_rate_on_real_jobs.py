"""The search on jobs that really train, in this process: whatever way they lay out their data, they are answered."""

import math
from pathlib import Path

import pytest

from legroom import api
from legroom.child.built_job import BuiltJob
from legroom.child.serve import serve
from legroom.engines.base import ignore
from legroom.errors import NothingMeasured
from legroom.session import advise_again
from legroom.testing import plant_host

JOBS = Path(__file__).parents[2] / "jobs"


class InProcess:
    """An engine whose one child is this process: a forked one costs two seconds and shows nothing more."""

    def start(self, address, environment, *, alone=False):
        self.built = BuiltJob(address)
        return self

    def ask(self, request, listen=ignore):
        return serve(request, self.built)

    def close(self):
        pass


def ask(name, out, *, seeds=1, **words):
    run = api.Run(out=out, engine=InProcess(), host=plant_host())
    return api.rate(f"{JOBS / name}.py:job", device="cpu", budget=60.0, seeds=seeds, run=run, **words)


@pytest.mark.parametrize(
    ("name", "target", "has_noise"),
    [
        ("plain", "loss=1.0", True),
        ("convnet", "loss=0.5", False),
        ("iterable", "loss=0.35", True),
        ("token_counts", "loss=3.0", True),
    ],
    ids=["rows", "BatchNorm and Adam", "iterable and AdamW", "a loss with its count"],
)
def test_a_job_that_trains_is_answered(tmp_path, name, target, has_noise):
    answer = ask(name, tmp_path, target=target, seeds=2)
    assert answer.reached
    assert answer.range[0] <= answer.learning_rate <= answer.range[1]
    assert all(math.isfinite(steps) for steps in answer.steps_range)
    assert (answer.noise_scale is not None) <= has_noise
    assert answer.noise_scale is None or 0 < answer.noise_scale < math.inf
    assert advise_again(tmp_path, "rate") == answer


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("loss=0.5", r"The score did not leave chance: a model that learned nothing has 0\.3, and"),
        ("same", r"own settings did not leave chance: they end at score .* a model that learned nothing has 0\.3"),
    ],
)
def test_shuffled_labels_did_not_leave_chance_though_the_loss_fell(tmp_path, target, sentence):
    with pytest.raises(NothingMeasured, match=sentence):
        ask("shuffled", tmp_path, target=target)


def test_the_command_answers_and_goes_on_from_its_folder(legroom_here):
    words = ("rate", f"{JOBS / 'plain.py'}:job", "--device", "cpu", "--target", "loss=1.0", "--budget", "1min")
    words = (*words, "--seeds", "2", "--batch-size", "32", "--json")
    ran = legroom_here(*words)
    again = legroom_here(*words, "--resume")
    assert (ran.code, again.code) == (0, 0)
    assert ran.json["reached"]
    assert ran.json["batch_size"] == 32
    assert again.json["seconds"] == 0.0, "everything was recalled"
    assert again.json["learning_rate"] == ran.json["learning_rate"]


def test_a_job_with_a_loader_of_its_own_is_answered(tmp_path):
    run = api.Run(out=tmp_path, engine=InProcess(), host=plant_host())
    job = f"{Path(__file__).parent / 'own_loader.py'}:job"
    answer = api.rate(job, device="cpu", target="loss=1.0", budget=60.0, seeds=2, run=run)
    assert answer.reached
    assert answer.num_epochs == pytest.approx(answer.num_steps / 32), "an epoch is what the loader makes of it"
    assert answer.noise_scale is None, "its batches cannot be halved"
