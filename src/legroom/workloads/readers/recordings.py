"""Finds recorded speech with its words: spoken digits by file name, and LibriSpeech's layout."""

import io
import lzma
import os
import re
import tarfile
import wave
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from legroom.errors import UsageError
from legroom.workloads.readers.class_folders import is_held_out, list_files
from legroom.workloads.readers.files import WAY_FORWARD, find_folder, read_bytes

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGIT_NAME = re.compile(r"(?P<digit>\d)_(?P<speaker>[^_]+)_(?P<take>\d+)\.wav")
ARCHIVES = ("recordings.tar.xz", "recordings.tar.gz", "recordings.tar")
PUBLISHED_AT = (
    "https://github.com/Jakobovski/free-spoken-digit-dataset (names as 7_theo_12.wav) or https://www.openslr.org/12 "
    "(LibriSpeech; its FLAC files as WAV beside their *.trans.txt)"
)
NUM_TEST_TAKES = 5
"""Takes below this are the publisher's test part of the spoken digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One WAV file and what is said in it."""

    name: str
    words: str
    speaker: str
    published_as_test: bool
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Recordings:
    """A data set of them."""

    identity: bytes
    """What the set is known by: the archive itself, or names, sizes and times of the files."""
    each: Callable[[], Iterator[Recording]]


def find_recordings(data: str, folder: str) -> Recordings:
    """An archive of WAV files, WAV files whose names say the digit, or folders with transcripts."""
    root = find_folder(data, folder, contents=f"the recordings of {folder}")
    archive = next((root / name for name in ARCHIVES if (root / name).is_file()), None)
    if archive is not None:
        content = read_bytes(archive)
        return Recordings(content, lambda: _in_archive(archive, content))
    transcripts = sorted(root.rglob("*.trans.txt"))
    sounds = sorted(root.rglob("*.wav"))
    if transcripts and sounds:
        return Recordings(list_files(transcripts + sounds), lambda: _with_transcripts(root, transcripts))
    named = [path for path in sounds if DIGIT_NAME.fullmatch(path.name)]
    if named:
        return Recordings(list_files(named), lambda: (_digit(path.name, path.read_bytes) for path in named))
    flac = ", though FLAC files, which need to be WAV files" if next(root.rglob("*.flac"), None) else ""
    raise UsageError(
        f"There is no {ARCHIVES[0]} in {str(root)!r}, and no WAV file with its words{flac}. "
        f"Recordings are published at {PUBLISHED_AT}. {WAY_FORWARD}"
    )


def has_recordings(root: Path) -> bool:
    """Whether an archive, spoken digits or LibriSpeech's parts lie right there; no other folder is searched."""
    if any((root / name).is_file() for name in ARCHIVES) or any(map(DIGIT_NAME.fullmatch, os.listdir(root))):
        return True
    transcripts = (path for part in ("train", "dev", "test") for path in root.glob(f"{part}-*/*/*/*.trans.txt"))
    return any(next(path.parent.glob("*.wav"), None) for path in transcripts)


def _in_archive(path: Path, content: bytes) -> Iterator[Recording]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                name = Path(member.name).name
                if member.isfile() and DIGIT_NAME.fullmatch(name):
                    sound = archive.extractfile(member).read()  # type: ignore[union-attr]
                    yield _digit(name, lambda sound=sound: sound)  # type: ignore[misc]
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UsageError(
            f"{path} of {len(content):,} bytes is damaged or truncated: {error}. Get it again from {PUBLISHED_AT}"
        ) from None


def _digit(name: str, read: Callable[[], bytes]) -> Recording:
    found = DIGIT_NAME.fullmatch(name)
    assert found is not None, name
    return Recording(
        name=name,
        words=DIGITS[int(found["digit"])],
        speaker=found["speaker"],
        published_as_test=int(found["take"]) < NUM_TEST_TAKES,
        read=read,
    )


def _with_transcripts(root: Path, transcripts: list[Path]) -> Iterator[Recording]:
    """Lines of "SPEAKER-CHAPTER-NUMBER WORDS" beside the files they name; parts called dev or test are held out."""
    parts = {path.relative_to(root).parts[0] for path in transcripts}
    has_test = any(part.startswith(("dev", "test")) for part in parts)
    for path in transcripts:
        held_out = path.relative_to(root).parts[0].startswith(("dev", "test"))
        for line in read_bytes(path).decode(errors="replace").splitlines():
            name, _, words = line.partition(" ")
            yield Recording(
                name=name,
                words=words,
                speaker=name.partition("-")[0],
                published_as_test=held_out if has_test else is_held_out(name),
                read=path.with_name(f"{name}.wav").read_bytes,
            )


def read_wav(content: bytes) -> tuple[np.ndarray, int]:
    """The sound as numbers from -1 to 1, channels joined, and its samples a second; ValueError where it is none."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            width, channels, rate, count = (
                file.getsampwidth(), file.getnchannels(), file.getframerate(), file.getnframes()
            )  # fmt: skip
            frames = file.readframes(count)
    except (wave.Error, EOFError) as error:
        raise ValueError(f"no WAV file: {error or 'it ends too soon'}") from None
    if not count or len(frames) != count * width * channels:
        raise ValueError(f"it has {len(frames):,} bytes of sound and announces {count * width * channels:,}")
    return _as_numbers(frames, width).reshape(-1, channels).mean(1), rate


def _as_numbers(frames: bytes, width: int) -> np.ndarray:
    if width == 1:  # the only width without a sign
        return np.frombuffer(frames, np.uint8) / np.float32(128) - 1
    if width == 3:
        wide = np.zeros((len(frames) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(frames, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0] / np.float32(2**31)
    return np.frombuffer(frames, f"<i{width}") / np.float32(2 ** (8 * width - 1))
