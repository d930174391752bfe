"""Photographs are read from class folders; what cannot be decoded is skipped, too much of it is an error."""

import builtins
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from legroom.errors import UsageError
from legroom.workloads import image_folder
from legroom.workloads.readers.class_folders import is_held_out, most_frequent_share, read_folders
from legroom.workloads.readers.photos import centre_box, cut, random_box

COLOURS = {"apple": (200, 0, 0), "berry": (0, 0, 200)}


def write_photos(root, num_photos=30, size=(60, 45)):
    """Class folders of one colour each."""
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(num_photos):
            Image.new("RGB", size, colour).save(root / name / f"{number:03d}.jpg")


def make_job(folder, **more):
    return image_folder.job(data=str(folder), **({"size": 32} | more))


@pytest.mark.parametrize("keep", [False, True])
def test_photographs_come_as_squares_of_bytes_with_their_class(tmp_path, keep):
    write_photos(tmp_path / "caltech101-10")
    for _ in range(2):  # the second time from the cache
        job = make_job(tmp_path, keep=keep)
        for data in (job.train_data(), job.valid_data()):
            for pixels, label in (data[index] for index in range(len(data))):
                assert (pixels.shape, pixels.dtype) == ((3, 32, 32), torch.uint8)
                expected = torch.tensor(list(COLOURS.values())[label]).float()
                assert (pixels.float().mean((1, 2)) - expected).abs().max() < 10


def test_the_held_out_share_is_fixed_by_the_names(tmp_path):
    write_photos(tmp_path / "here")
    write_photos(tmp_path / "there" / "caltech101-10", num_photos=40)
    here, there = (image_folder.read_images(str(tmp_path / name), "caltech101-10") for name in ("here", "there"))
    names = [{f"{path.parent.name}/{path.name}" for path, _ in found.valid} for found in (here, there)]
    assert names[0] < names[1]
    assert len(here.train) + len(here.valid) == 60
    share = sum(is_held_out(str(number)) for number in range(5000)) / 5000
    assert abs(share - 0.2) < 0.02
    assert make_job(tmp_path / "here").score.chance == most_frequent_share(here.valid) < 1


def test_folders_named_train_and_val_are_the_split(tmp_path):
    write_photos(tmp_path / "train", num_photos=4)
    write_photos(tmp_path / "val", num_photos=3)
    job = make_job(tmp_path)
    assert (len(job.train_data()), len(job.valid_data())) == (8, 6)


@pytest.mark.parametrize("keep", [False, True])
def test_photographs_that_cannot_be_decoded_are_skipped_up_to_a_limit(tmp_path, keep):
    write_photos(tmp_path, num_photos=10)
    paths = [path for path, _ in image_folder.read_images(str(tmp_path), "").train]
    whole = paths[0].read_bytes()
    for path, content in zip(paths, (whole[: len(whole) // 2], b"", b"no picture"), strict=False):
        path.write_bytes(content)
    data = make_job(tmp_path, keep=keep).train_data()
    with pytest.warns(UserWarning, match=r"cannot be read .* is skipped: [123] of \d+ so far") as said:
        labels = [data[index][1] for index in range(len(data))]
    assert len(said) == 3
    assert labels[0] == data.source.labels[3]
    paths[3].write_bytes(b"")
    data = make_job(tmp_path, keep=keep).train_data()
    with (
        pytest.raises(UsageError, match=r"4 of \d+ samples cannot be read; 3 are let pass"),
        pytest.warns(match="skipped"),
    ):
        [data[index] for index in range(len(data))]


def test_what_is_wrong_with_the_folders_is_said(tmp_path, monkeypatch):
    (tmp_path / "only").mkdir()
    with pytest.raises(UsageError, match="has 1 class folders"):
        make_job(tmp_path)
    write_photos(tmp_path, num_photos=3)
    with pytest.raises(UsageError, match=r"class folder '.*only' has no image in it"):
        make_job(tmp_path)
    with pytest.raises(UsageError, match=r"no folder '.*nowhere' to read the images of caltech101-10"):
        make_job(tmp_path / "nowhere")
    monkeypatch.delenv("LEGROOM_DATA", raising=False)
    with pytest.raises(UsageError, match="No folder is named for the images"):
        image_folder.job()


def test_samples_of_one_group_stay_together(tmp_path):
    for name in COLOURS:
        for number in range(40):
            path = tmp_path / name / f"scene{number // 4}_{number}.npy"
            path.parent.mkdir(exist_ok=True)
            path.touch()
    found = read_folders(tmp_path, lambda path: True, "clip", group=lambda name: name.partition("_")[0])
    scenes = [
        {(path.parent.name, path.name.partition("_")[0]) for path, _ in part} for part in (found.train, found.valid)
    ]
    assert not scenes[0] & scenes[1]


def test_boxes_lie_within_the_photograph_and_hold_their_share():
    for _ in range(200):
        left, upper, right, lower = random_box(300, 200, 0.35)
        assert 0 <= left < right <= 300 + 1e-6
        assert 0 <= upper < lower <= 200 + 1e-6
        assert (right - left) * (lower - upper) > 0.25 * 300 * 200  # a box that is too wide is cut off
    assert centre_box(300, 200) == (62.5, 12.5, 237.5, 187.5)


def test_a_jpeg_decoded_at_a_part_of_its_size_shows_the_same_box(tmp_path):
    across = np.linspace(0, 255, 800)[None, :].repeat(600, 0)
    Image.fromarray(np.stack([across, across, across], 2).astype(np.uint8)).save(tmp_path / "ramp.jpg", quality=95)
    box = (200.0, 100.0, 600.0, 500.0)
    with Image.open(tmp_path / "ramp.jpg") as image:
        pixels = cut(image, box, 50)
        assert image.size == (100, 75)
    expected = 255 * (200 + 400 * (np.arange(50) + 0.5) / 50) / 800
    assert np.abs(pixels[:, :, 0].mean(0) - expected).max() < 3


def test_the_job_trains_and_its_memory_is_known(tmp_path, train_two_epochs, estimate_bytes):
    write_photos(tmp_path, num_photos=20)
    job = make_job(tmp_path)
    job = replace(job, model=job.resize["width"](4))
    result = train_two_epochs(job)
    assert (result.stopped_because, len(result.evaluations)) == ("finished", 2)
    small, large = estimate_bytes(job, 4, 8)
    assert 0 < small < large
    with torch.device("meta"):
        assert job.resize["depth"](1)()(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 2)


def test_the_stand_in_is_decoded_like_photographs(monkeypatch):
    monkeypatch.setattr("legroom.workloads.readers.photos.NUM_SYNTHETIC", 4)
    job = image_folder.job(data="synthetic", size=64)
    assert "synthetic stand-in" in job.notes[0]
    data = job.train_data()
    assert len(data) == 1_280
    assert data[5][0].shape == (3, 64, 64)
    assert data.source.open(0).size == (500, 375)
    assert math.isclose(job.score.chance, 0.1)


def test_a_network_that_is_not_there_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name.startswith("torchvision"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"'densenet201' is not built in, and torchvision is missing .* resnet152"):
        image_folder.job(data="synthetic", model="densenet201")


def test_networks_of_torchvision_are_found_by_name():
    pytest.importorskip("torchvision")
    model = image_folder.make_network("alexnet", 7)()
    assert model(torch.zeros(2, 3, 224, 224)).shape == (2, 7)
    with pytest.raises(UsageError, match="torchvision has no classifier 'nonet'"):
        image_folder.make_network("nonet", 7)
