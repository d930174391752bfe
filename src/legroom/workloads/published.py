"""The data sets of the built-in jobs: what their files are called and where they are published."""

from dataclasses import dataclass
from typing import Literal

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
