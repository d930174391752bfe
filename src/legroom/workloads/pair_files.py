"""Where the published sets of sentence pairs lie, and what is said when one is missing."""

from dataclasses import dataclass
from pathlib import Path

from legroom.errors import UsageError
from legroom.workloads.files import VARIABLE, find_file
from legroom.workloads.parallel import PairFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A set as its publisher ships it."""

    folder: str
    names: tuple[tuple[str, ...], ...]
    """Of each file the names it may have."""
    num_bytes: tuple[int | None, ...]
    """Of each first name's file, where that is known."""
    at: str
    member: str = ""


PUBLISHED = {
    "small-vocab": Published(
        folder="small-vocab",
        names=(("small_vocab_en", "small_vocab_en.gz"), ("small_vocab_fr", "small_vocab_fr.gz")),
        num_bytes=(None, None),
        at="https://github.com/udacity/aind2-nlp-capstone (folder data/)",
    ),
    "tatoeba": Published(
        folder="fra-eng",
        names=(("fra.txt", "fra-eng.zip"),),
        num_bytes=(11_669_748,),
        at="https://www.manythings.org/anki/fra-eng.zip (its edition of 2019-04-08; later ones are larger)",
        member="fra.txt",
    ),
    "europarl": Published(
        folder="europarl",
        names=(
            ("europarl-v7.fr-en.en", "europarl-v7.fr-en.en.gz"),
            ("europarl-v7.fr-en.fr", "europarl-v7.fr-en.fr.gz"),
        ),
        num_bytes=(301_523_301, 346_919_801),
        at="https://www.statmt.org/europarl/v7/fr-en.tgz (unpack it)",
    ),
}


def find_pairs(data: str, pairs: str, source: str, target: str) -> PairFiles:
    """The files of a published set, or the user's own."""
    if target and not source:
        raise UsageError("target is given without source. Give both, or a tab-separated file as source")
    if source:
        own = tuple(_own(word) for word in (source, target) if word)
        return PairFiles(paths=own, way_forward="Give a whole file")
    found = PUBLISHED[pairs]
    paths = tuple(
        find_file(data, found.folder, names, num_bytes=num_bytes, published_at=found.at)
        for names, num_bytes in zip(found.names, found.num_bytes, strict=True)
    )
    sizes = zip(found.names, found.num_bytes, strict=True)
    told = "".join(f"; {names[0]} has {size:,} bytes" for names, size in sizes if size)
    return PairFiles(paths=paths, way_forward=f"Get it again from {found.at}{told}", member=found.member)


def _own(word: str) -> Path:
    path = Path(word).expanduser()
    if not path.is_file():
        raise UsageError(f"There is no file {word!r}. Leave source out to read the published pairs from {VARIABLE}")
    return path
