"""idx files are read as written; anything else is refused with the file, the expected size and its source."""

import gzip
import struct

import pytest
import torch

from legroom.errors import UsageError
from legroom.workloads.idx import read_idx

IMAGES = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(2, 3, 4)
CONTENT = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + bytes(range(24))


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
