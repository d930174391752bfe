"""Where the published sets of sentence pairs lie, and what is said when one is missing."""

from pathlib import Path

from legroom.errors import UsageError
from legroom.workloads.files import VARIABLE, find_file
from legroom.workloads.parallel import PairFiles
from legroom.workloads.published import PUBLISHED


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
