"""A job at another model size: by an option of its address, or by its settings."""

import pytest

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.job_address import address_of, load_job


def num_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_command_can_ask_about_another_size(legroom_here, forking):
    words = ("speed", "digits", "--device", "cpu", "--quick", "--with", "model_size=width=16", "--json")
    assert legroom_here(*words).json["settings"]["model_size"] == "width=16"


def test_the_option_makes_the_model_of_that_size():
    plain, small = load_job("digits"), load_job("digits", {"model_size": "width=16"})
    own, size = small.make_model(small.baseline.model_size), plain.resize["width"](16)()
    assert num_parameters(own) == num_parameters(size) < num_parameters(plain.make_model())
    assert address_of("digits").at_size("width=16").name == "digits-model_size=width=16"


def test_a_run_trains_the_size_that_it_names(legroom_here, forking, tmp_path):
    import torch

    words = ("train", "digits", "--device", "cpu", "--steps", "2", "--model-size", "width=16", "--out", tmp_path / "o")
    ran = legroom_here(*words, "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["settings"]["model_size"] == "width=16"
    saved = torch.load(tmp_path / "o" / "best.pt", weights_only=True)
    found = sum(value.numel() for value in saved["model"].values())
    assert found == num_parameters(load_job("digits").resize["width"](16)())


@pytest.mark.parametrize("size", ["width", "width=", "width=0", "width=1.5", "=3", 3])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(UsageError, match=r"Settings.model_size is .*it must be text such as"):
        Settings(model_size=size)


def test_a_size_that_the_job_does_not_know_is_told_with_those_it_does():
    with pytest.raises(UsageError, match=r"its resize knows width, depth\. Give the Job"):
        load_job("digits").make_model("height=3")
