"""CIFAR-10 is read in each of its layouts, augmented on the device, and what is wrong with its files is said."""

import gzip
import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from legroom.errors import UsageError
from legroom.workloads import cifar_resnet18
from legroom.workloads.models.classifiers import CropAndFlip, Normalize
from legroom.workloads.readers import cifar, cifar_sheets

NUM = 10
NAMES = [name for names in cifar.FILES.values() for name in names]


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    for module in (cifar, cifar_sheets, cifar_resnet18):
        monkeypatch.setattr(module, "NUM_IN_FILE", NUM)


def make_rows(name, top_label=9):
    """Ten images of each file: image i of class i, every byte by chance."""
    rng = np.random.default_rng(NAMES.index(name))
    values = rng.integers(0, 256, (NUM, cifar.NUM_VALUES), dtype=np.uint8)
    return np.hstack([np.linspace(0, top_label, NUM).astype(np.uint8)[:, None], values])


def write_set(folder, layout="binary", **more):
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        rows = make_rows(name, **more)
        if layout == "python":
            content = {b"labels": rows[:, 0].tolist(), b"data": rows[:, 1:], b"batch_label": b"one"}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        elif layout == "gzip":
            (folder / f"{name}.bin.gz").write_bytes(gzip.compress(rows.tobytes()))
        else:
            (folder / f"{name}.bin").write_bytes(rows.tobytes())


@pytest.mark.parametrize(
    ("layout", "inner"),
    [
        ("binary", ""),
        ("gzip", "cifar10"),
        ("binary", "cifar-10-batches-bin"),
        ("python", "cifar-10-batches-py"),
        ("python", "cifar10/cifar-10-batches-py"),
    ],
)
def test_every_layout_gives_the_same_images(tmp_path, layout, inner):
    write_set(tmp_path / inner, layout)
    job = cifar_resnet18.job(data=str(tmp_path))
    images, labels = job.train_data().tensors
    expected = np.concatenate([make_rows(name) for name in cifar.FILES["train"]])
    assert np.array_equal(images.flatten(1), expected[:, 1:])
    assert labels.tolist() == list(range(10)) * 5
    assert len(job.valid_data()) == NUM
    assert job.notes == ()


def test_an_images_first_plane_is_red(tmp_path):
    """The sheets hold a pixel's colours side by side, the binary layout all of one colour together."""
    sheets = tmp_path / "sheets"
    sheets.mkdir()
    for name in NAMES:
        rows = make_rows(name)[:, 1:].reshape(NUM, 3, 1024).transpose(0, 2, 1)
        Image.fromarray(np.ascontiguousarray(rows)).save(sheets / f"{name}.png")
    (sheets / "train_lables.json").write_text(json.dumps(list(range(10)) * 5))
    (sheets / "test_lables.json").write_text(json.dumps(list(range(10))))
    assert cifar_sheets.main([str(sheets), str(tmp_path / "out")]) == 0
    for name in NAMES:
        assert (tmp_path / "out" / f"{name}.bin").read_bytes() == make_rows(name).tobytes()
    (sheets / "test_batch.png").unlink()
    with pytest.raises(SystemExit) as ended:
        cifar_sheets.main([str(sheets), str(tmp_path / "out")])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("layout", "fault", "sentence"),
    [
        ("binary", lambda path: path.unlink(), r"no data_batch_3.bin or .* 30,730 bytes .*cs.toronto.edu"),
        ("binary", lambda path: path.write_bytes(path.read_bytes()[:99]), r"has 99 bytes .* 30,730: it is truncated"),
        ("python", lambda path: path.write_bytes(path.read_bytes()[:99]), r"of 99 bytes .* or truncated"),
        ("python", lambda path: path.write_bytes(pickle.dumps({b"data": [1]})), r"or truncated \(KeyError"),
        ("python", lambda path: path.write_bytes(pickle.dumps(print)), r"builtins.print, which is no array"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, layout, fault, sentence):
    write_set(tmp_path, layout)
    fault(tmp_path / ("data_batch_3.bin" if layout == "binary" else "data_batch_3"))
    with pytest.raises(UsageError, match=sentence):
        cifar_resnet18.job(data=str(tmp_path)).train_data()


def test_labels_of_another_set_are_refused(tmp_path):
    write_set(tmp_path, top_label=99)
    with pytest.raises(UsageError, match=r"has the label 99; CIFAR-10 has the classes 0 to 9"):
        cifar_resnet18.job(data=str(tmp_path)).train_data()


def test_every_crop_is_the_image_moved_and_perhaps_mirrored():
    images = torch.randint(1, 256, (64, 3, 6, 7), dtype=torch.uint8)
    augment = CropAndFlip(padding=2)
    padded = torch.nn.functional.pad(images, [2] * 4)
    seen = set()
    for image, made in zip(padded, augment(images), strict=True):
        views = {(y, x, m): image[:, y : y + 6, x : x + 7] for y in range(5) for x in range(5) for m in (0, 1)}
        found = [key for key, view in views.items() if torch.equal(view.flip(2) if key[2] else view, made)]
        assert found
        seen |= set(found)
    assert {m for _, _, m in seen} == {0, 1}
    assert len({(y, x) for y, x, _ in seen}) > 10
    assert torch.equal(augment.eval()(images), images)


def test_normalised_bytes_have_mean_0_and_spread_1():
    images = torch.randint(256, (8, 3, 16, 16), dtype=torch.uint8)
    scaled = images.float() / 255
    found = Normalize(scaled.mean((0, 2, 3)).tolist(), scaled.std((0, 2, 3)).tolist())(images)
    assert found.mean().abs() < 1e-4
    assert abs(found.std() - 1) < 1e-3


def test_the_job_trains_and_its_memory_is_known(train_two_epochs, estimate_bytes):
    job = cifar_resnet18.job(data="synthetic", width=4, depth=1)
    assert "synthetic stand-in" in job.notes[0]
    result = train_two_epochs(job)
    assert (result.stopped_because, len(result.evaluations)) == ("finished", 2)
    small, large = estimate_bytes(job, 4, 8)
    assert 0 < small < large
    for dimension in ("width", "depth"):
        assert job.resize[dimension](2)()(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 10)


def test_the_stand_in_can_be_learned():
    """Crops and flips leave the colour of the middle, which names the class."""
    images, labels = cifar_resnet18.make_images(400).tensors
    middles = CropAndFlip(padding=4)(images)[:, :, 12:-12, 12:-12].float().mean((2, 3))
    means = torch.stack([middles[labels == number].mean(0) for number in range(10)])
    assert (torch.cdist(middles, means).argmin(1) == labels).float().mean() > 0.95
