"""The data sets of the built-in jobs: the names of their files, where they are published, and whether they are here."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from legroom.workloads.readers.class_folders import has_folders, is_clip, is_photo
from legroom.workloads.readers.files import VARIABLE

IDX_FILES = tuple(
    f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
)  # fmt: skip
CIFAR_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A set as its publisher ships it."""

    title: str
    folder: str = ""
    """In the folder of data sets."""
    names: tuple[tuple[str, ...], ...] = ()
    """Of each file the names it may have; none where any files in the folder will do."""
    layout: Literal["", "photos", "clips", "recordings"] = ""
    """How files of any name lie, where `names` tells none."""
    num_bytes: tuple[int | None, ...] = ()
    """Of each first name's file, where that is known."""
    at: str = ""
    member: str = ""
    """Of a zip."""
    package: str = ""
    """The Python package that the set comes in; such a set lies in no folder of data sets."""


PUBLISHED = {
    "digits": Published(title="scikit-learn's digits", package="sklearn"),
    "standard-library": Published(title="Python's standard library", package="ast"),
    "mnist": Published(
        title="MNIST",
        folder="mnist",
        names=tuple((name, f"{name}.gz") for name in IDX_FILES),
        at="http://yann.lecun.com/exdb/mnist/ (copy: https://ossci-datasets.s3.amazonaws.com/mnist/)",
    ),
    "fashion-mnist": Published(
        title="Fashion-MNIST",
        folder="fashion-mnist",
        names=tuple((name, f"{name}.gz") for name in IDX_FILES),
        at="https://github.com/zalandoresearch/fashion-mnist",
    ),
    "ptb": Published(
        title="Penn Treebank",
        folder="ptb",
        names=tuple((f"ptb.{part}.txt",) for part in ("train", "valid", "test")),
        at="http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz (in its folder data/)",
    ),
    "small-vocab": Published(
        title="small-vocab pairs",
        folder="small-vocab",
        names=(("small_vocab_en", "small_vocab_en.gz"), ("small_vocab_fr", "small_vocab_fr.gz")),
        num_bytes=(None, None),
        at="https://github.com/udacity/aind2-nlp-capstone (folder data/)",
    ),
    "tatoeba": Published(
        title="Tatoeba pairs",
        folder="fra-eng",
        names=(("fra.txt", "fra-eng.zip"),),
        num_bytes=(11_669_748,),
        at="https://www.manythings.org/anki/fra-eng.zip (its edition of 2019-04-08; later ones are larger)",
        member="fra.txt",
    ),
    "europarl": Published(
        title="Europarl pairs",
        folder="europarl",
        names=(
            ("europarl-v7.fr-en.en", "europarl-v7.fr-en.en.gz"),
            ("europarl-v7.fr-en.fr", "europarl-v7.fr-en.fr.gz"),
        ),
        num_bytes=(301_523_301, 346_919_801),
        at="https://www.statmt.org/europarl/v7/fr-en.tgz (unpack it)",
    ),
    "wikitext-2": Published(
        title="WikiText-2",
        folder="wikitext-2",
        names=(("wikitext-2.zip", "wikitext-2-v1.zip"),),
        at="https://wikitext.smerity.com/wikitext-2-v1.zip (Merity et al. 2016, arXiv:1609.07843)",
    ),
    "cifar10": Published(
        title="CIFAR-10",
        folder="cifar10",
        names=tuple(
            (f"{name}.bin", f"{name}.bin.gz", f"cifar-10-batches-bin/{name}.bin", name, f"cifar-10-batches-py/{name}")
            for name in CIFAR_FILES
        ),
        at="https://www.cs.toronto.edu/~kriz/cifar.html (binary or python version, unpacked)",
    ),
    "caltech101-10": Published(
        title="ten classes of Caltech-101, or any class folders",
        folder="caltech101-10",
        layout="photos",
        at="https://data.caltech.edu/records/mzrjq-6wc02",
    ),
    "ucf101": Published(
        title="UCF-101 as frames, or any class folders",
        folder="ucf101",
        layout="clips",
        at="https://www.crcv.ucf.edu/data/UCF101.php",
    ),
    "spoken-digits": Published(
        title="Free Spoken Digit Dataset",
        folder="spoken-digits",
        layout="recordings",
        at="https://github.com/Jakobovski/free-spoken-digit-dataset",
    ),
}


def _has_recordings(root: Path) -> bool:
    # Imported here: what reads archives costs 10 ms that `import legroom` should not pay.
    from legroom.workloads.readers.recordings import has_recordings

    return has_recordings(root)


HOLDS: dict[str, Callable[[Path], bool]] = {
    "photos": lambda root: has_folders(root, is_photo),
    "clips": lambda root: has_folders(root, is_clip),
    "recordings": _has_recordings,
}
"""Whether files that lie like this are in a folder: what the jobs accept, as far as names tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlace:
    """Where a job looks for a data set, and whether it is there."""

    option: str
    """The option that asks for this set, as "pairs=tatoeba"; empty for the job's own."""
    title: str
    path: str
    found: bool
    published_at: str


def look_for(name: str, data: str = "", option: str = "") -> DataPlace:
    """The set in the folder `data`, or in that of LEGROOM_DATA; nothing is opened."""
    known = PUBLISHED[name]
    root = data or os.environ.get(VARIABLE, "")
    if known.package:
        spec = importlib.util.find_spec(known.package)
        path, found = (str(Path(spec.origin or "").parent), True) if spec else (known.package, False)
    else:
        place = _find(Path(root).expanduser(), known) if root else None
        path, found = str(place or Path(root or f"${VARIABLE}", known.folder)), place is not None
    return DataPlace(option=option, title=known.title, path=path, found=found, published_at=known.at)


def _find(root: Path, known: Published) -> Path | None:
    """The set's own folder, or the folder of data sets where the set lies right in that."""
    folder = root / known.folder
    if known.layout:
        try:
            if folder.is_dir():  # where it is there, the job looks nowhere else
                return folder if any(folder.iterdir()) else None
            return root if root.is_dir() and HOLDS[known.layout](root) else None
        except OSError:  # a folder among them that may not be read; the job would say which
            return None
    is_there = all(any((place / name).is_file() for place in (folder, root) for name in names) for names in known.names)
    return (folder if folder.is_dir() else root) if is_there else None
