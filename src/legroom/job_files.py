"""Finds the user's own files behind a job by reading their import statements; none of them is run."""

import ast
import functools
import pickletools
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

LIBRARIES = ("site-packages", "dist-packages")


def find_module(name: str, folders: Sequence[Path]) -> tuple[Path, Path] | None:
    """The file of a module and the folder it was found from."""
    for folder in folders:
        stem = folder.joinpath(*name.split("."))
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if path.is_file():
                return path, folder
    return None


def search_path(first: Path | None) -> list[Path]:
    """Where the child looks for modules: the job's folder, the current one, and the usual path."""
    return [*([first] if first else []), Path.cwd(), *(Path(folder) for folder in sys.path if folder)]


def files_behind(source: Path, root: Path) -> list[tuple[str, bytes]]:
    """Name and content of the user's files that this one imports, directly or not, itself left out.

    The user's are those in the job's folder, the current one, or elsewhere on the path outside of installed packages;
    of a job in an installed package, those of that package.
    """
    own = source.relative_to(root).parts[0].removesuffix(".py") if _is_library(root) else None
    folders = [root, *(folder for folder in search_path(None) if not _is_library(folder))]
    seen = {source: source.read_bytes()}
    waiting = [source, *_packages_of(source, root)]
    while waiting:
        path = waiting.pop()
        content = seen.setdefault(path, path.read_bytes())
        found = (file for name, level in _imports(content) for file in _resolve(name, level, path, folders, own))
        waiting += [file for file in dict.fromkeys(found) if file not in seen]
    del seen[source]
    return sorted((_name_in(path, root), content) for path, content in seen.items())


def files_in_pickle(pickled: bytes) -> list[tuple[str, bytes]]:
    """The same for a function that travels by value: the modules it names, as this process has imported them."""
    words = {word for _, word, _ in pickletools.genops(pickled) if isinstance(word, str)}
    found: dict[str, bytes] = {}
    for name in sorted(words & set(sys.modules) - {"__main__"}):
        source = Path(getattr(sys.modules[name], "__file__", None) or "")
        if source.suffix == ".py" and source.is_file() and not _is_ours(name) and not _is_library(source):
            is_package = source.name == "__init__.py"
            root = source.parents[name.count(".") + is_package]
            found |= {_name_in(source, root): source.read_bytes(), **dict(files_behind(source, root))}
    return sorted(found.items())


@functools.lru_cache(maxsize=4096)
def _imports(content: bytes) -> tuple[tuple[str, int], ...]:
    """Every name that may be a module, with the level of a relative import; none where it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(name for node in nodes for name in _names_of(node)))


def _names_of(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, 0) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        yield module, node.level
        yield from ((f"{module}.{alias.name}".lstrip("."), node.level) for alias in node.names)  # it may be a module


def _resolve(name: str, level: int, source: Path, folders: list[Path], own: str | None) -> Iterator[Path]:
    """The files that importing this name runs: its packages' and its own."""
    if level:
        base = source.parents[level - 1] if level <= len(source.parents) else source.parent
        folders, own = [base], None
        yield from (path for path in (base / "__init__.py",) if path.is_file())
    elif _is_ours(name) or (own is not None and name.partition(".")[0] != own):
        return
    parts = [part for part in name.split(".") if part and part != "*"]
    for length in range(1, len(parts) + 1):
        if found := find_module(".".join(parts[:length]), folders):
            yield found[0]


def _packages_of(source: Path, root: Path) -> list[Path]:
    """The packages above a module, which importing it runs too."""
    above = source.relative_to(root).parents if source.is_relative_to(root) else []
    return [
        root / each / "__init__.py" for each in above if (root / each / "__init__.py").is_file() and str(each) != "."
    ]


def _name_in(path: Path, root: Path) -> str:
    """Its name from the job's folder, so that a job moved as a whole stays the same job."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "legroom"


def _is_library(path: Path) -> bool:
    standard = Path(sysconfig.get_path("stdlib"))
    return any(part in LIBRARIES for part in path.parts) or path.is_relative_to(standard)
