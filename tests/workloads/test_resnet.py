"""The residual networks are the published ones, to the parameter."""

import pytest
import torch

from legroom.workloads.models.resnet import ResNet, named_resnet


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("resnet50", 25_557_032), ("resnet152", 60_192_808)],
)
def test_photo_networks_have_torchvisions_number_of_parameters(name, num_parameters):
    with torch.device("meta"):
        assert count(named_resnet(name, 1000)()) == num_parameters


def test_the_networks_of_cifar_and_of_clips_have_the_published_number_of_parameters():
    with torch.device("meta"):
        assert count(ResNet(10, stem="small")) == 11_173_962
        assert count(ResNet(400, stem="clip")) == 33_371_472


@pytest.mark.parametrize(("stem", "shape"), [("small", (8, 8)), ("photo", (40, 40)), ("clip", (4, 16, 16))])
@pytest.mark.parametrize("bottleneck", [False, True])
def test_each_stem_takes_its_pictures(stem, shape, bottleneck):
    model = ResNet(5, stem=stem, num_blocks=(1, 1, 1, 1), bottleneck=bottleneck, width=4)
    assert model(torch.randn(2, 3, *shape)).shape == (2, 5)


def test_stages_halve_the_size():
    model = ResNet(10, stem="small", width=4)
    assert model.stages(model.stem(torch.randn(1, 3, 32, 32))).shape == (1, 32, 4, 4)
