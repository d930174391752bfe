"""MNIST is read from the publisher's files in any of the usual places; what is wrong with them is said."""

import gzip
import struct

import pytest
import torch

from legroom.errors import UsageError
from legroom.workloads import mnist_lstm
from legroom.workloads.readers.mnist import read_idx
from legroom.workloads.readers.published import look_for

NUM_IMAGES = {"train": 6, "t10k": 3}
IMAGES = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(2, 3, 4)
CONTENT = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + bytes(range(24))


def write_set(folder, pixels=28, pack=gzip.compress, ending=".gz", extra_labels=0, labels=range(10)):
    """A tiny set in the publisher's format: image i is all i, its label is i."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in NUM_IMAGES.items():
        images = b"".join(bytes([i]) * pixels**2 for i in range(count))
        header = bytes([0, 0, 8, 3]) + struct.pack(">3I", count, pixels, pixels)
        (folder / f"{part}-images-idx3-ubyte{ending}").write_bytes(pack(header + images))
        count += extra_labels
        header = bytes([0, 0, 8, 1]) + struct.pack(">I", count)
        (folder / f"{part}-labels-idx1-ubyte{ending}").write_bytes(pack(header + bytes(labels[:count])))


@pytest.mark.parametrize("inner", ["", "mnist"])
@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (bytes, "")])
def test_packed_or_plain_files_are_found_in_the_folder_or_inside_it(tmp_path, inner, pack, ending):
    write_set(tmp_path / inner, pack=pack, ending=ending)
    job = mnist_lstm.job(data=str(tmp_path))
    images, labels = job.train_data().tensors
    assert images.shape == (6, 28, 28)
    assert images[:, 0, 0].tolist() == labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert len(job.valid_data()) == 3
    assert job.notes == ()


def test_the_environment_names_the_folder_where_no_option_does(tmp_path, monkeypatch):
    write_set(tmp_path / "fashion-mnist")
    monkeypatch.setenv("LEGROOM_DATA", str(tmp_path))
    assert len(mnist_lstm.job(images="fashion-mnist").train_data()) == 6
    with pytest.raises(UsageError, match=r"no train-images-idx3-ubyte or .*\.gz in .*mnist"):
        mnist_lstm.job()


def test_a_missing_file_is_named_with_its_size_and_source(tmp_path, monkeypatch):
    write_set(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UsageError, match=r"no t10k-labels-idx1-ubyte or .* 10,008 bytes .* http://yann.lecun.com"):
        mnist_lstm.job(data=str(tmp_path))
    with pytest.raises(UsageError, match=r"no folder .*elsewhere.*47,040,016 bytes .*zalandoresearch"):
        mnist_lstm.job(data=str(tmp_path / "elsewhere"), images="fashion-mnist")
    monkeypatch.delenv("LEGROOM_DATA", raising=False)
    with pytest.raises(UsageError, match=r"No folder is named .* --data DIR or LEGROOM_DATA; --with data=synthetic"):
        mnist_lstm.job()


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ({"pixels": 20}, r"has images of 20x20 pixels; this job needs 28x28"),
        ({"extra_labels": 1}, r"has 6 images and .* 7 labels"),
        ({"labels": range(200, 210)}, r"has the label 205"),
    ],
)
def test_files_that_do_not_belong_here_are_refused(tmp_path, faults, sentence):
    write_set(tmp_path, **faults)
    with pytest.raises(UsageError, match=sentence):
        mnist_lstm.job(data=str(tmp_path)).train_data()


def test_the_stand_in_says_that_it_is_one_and_has_the_real_shape(monkeypatch):
    monkeypatch.setattr(mnist_lstm, "NUM_IMAGES", {"train": 2000, "t10k": 500})
    job = mnist_lstm.job(data="synthetic")
    assert "synthetic stand-in" in job.notes[0]
    images, labels = job.train_data().tensors
    assert (images.shape, images.dtype, labels.dtype) == ((2000, 28, 28), torch.uint8, torch.int64)
    assert torch.equal(images, job.train_data().tensors[0])
    # A class's mean image is nearest to the images of that class: there is something to learn.
    means = torch.stack([images[labels == number].float().mean(0) for number in range(10)])
    held_out, truth = job.valid_data().tensors
    nearest = torch.cdist(held_out.float().flatten(1), means.flatten(1)).argmin(1)
    assert (nearest == truth).float().mean() > 0.95


def test_models_of_other_sizes_take_bytes():
    job = mnist_lstm.job(data="synthetic", hidden=8)
    batch = (torch.randint(256, (4, 28, 28), dtype=torch.uint8), torch.tensor([1, 2, 3, 4]))
    for dimension in ("width", "depth"):
        assert torch.isfinite(job.loss(job.resize[dimension](3)(), batch))


@pytest.mark.parametrize("images", ["mnist", "fashion-mnist"])
def test_chance_is_the_share_of_the_most_frequent_class(images):
    if not look_for(images).found:
        pytest.skip(f"{images} is not here")
    job = mnist_lstm.job(images=images)
    assert job.score.chance == job.valid_data().tensors[1].bincount().max() / 10_000


def written(tmp_path, content):
    path = tmp_path / "images"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_reading_gives_back_what_was_written(tmp_path, pack):
    assert torch.equal(read_idx(written(tmp_path, pack(CONTENT)), 3, "somewhere"), IMAGES)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (CONTENT[:-5], r"has 35 bytes unpacked; it announces 2 x 3 x 4, which takes 40: it is truncated"),
        (CONTENT + b"x", r"has 41 bytes unpacked; .* which takes 40: it is too long"),
        (CONTENT[:10], r"ends within its first 16 bytes"),
        (b"", r"ends within its first 16 bytes"),
        (b"\0\0\x08\x01" + CONTENT[4:], r"begins with the bytes 00 00 08 01; .* begins with 00 00 08 03"),
        (b"\0\0\x0d\x03" + CONTENT[4:], r"begins with the bytes 00 00 0d 03"),
        (b"<html>404</html>", r"begins with the bytes 3c 68 74 6d"),
        (gzip.compress(CONTENT, mtime=0)[:20], r"truncated|ends within"),
        (gzip.compress(CONTENT, mtime=0)[:-9] + b"\0" * 9, r"is damaged"),
    ],
)
def test_a_bad_file_is_refused_with_its_source(tmp_path, content, sentence):
    path = written(tmp_path, content)
    with pytest.raises(UsageError, match=sentence) as caught:
        read_idx(path, 3, "https://example.org/images")
    assert str(path) in str(caught.value)
    assert "https://example.org/images" in str(caught.value)


def test_a_zip_cut_in_the_middle_tells_what_is_missing(tmp_path):
    pixels = torch.randint(256, (50, 28, 28), dtype=torch.uint8).numpy().tobytes()  # noise: packing cannot shrink it
    content = gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 50, 28, 28) + pixels)
    with pytest.raises(UsageError, match=r"announces 50 x 28 x 28, which takes 39,216: it is truncated"):
        read_idx(written(tmp_path, content[: len(content) // 2]), 3, "somewhere")
