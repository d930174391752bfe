"""Jobs ready by name; `legroom jobs` lists them. Each is a module here with a function `job`."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legroom.workloads.readers.published import DataPlace, look_for

WORKLOADS = (
    "digits",
    "mnist-lstm",
    "ptb-small",
    "ptb-large",
    "translation",
    "word-lm",
    "char-lm",
    "cifar-resnet18",
    "image-folder",
    "video",
    "speech",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A built-in job, as its source describes it: the function `job`, and `LISTED` for what no signature tells."""

    name: str
    summary: str
    options: dict[str, str]
    """Default of each option of `--with`, as written."""
    meanings: dict[str, str]
    """What each option is, where the job says so."""
    parameters: dict[str, int]
    """The model's number of parameters, by the options it has them with; a test builds and counts each."""
    sized_by: list[str]
    """Options that change that number."""
    data: list[DataPlace]
    """The data set of the job, and those that an option asks for instead."""


def jobs(data: Path | str | None = None) -> list[Workload]:
    """The built-in jobs with their options, parameters and data, looked for in the folder `data` or in LEGROOM_DATA.

    The jobs' sources are read, not imported: importing torch would cost the listing two seconds.
    """
    return [_read(name, str(data or "")) for name in WORKLOADS]


def _read(name: str, data: str) -> Workload:
    tree = ast.parse(Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text())
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "job")
    names = [argument.arg for argument in function.args.args]
    defaults = [ast.unparse(default) for default in function.args.defaults]
    summary, meanings = split_docstring(ast.get_docstring(function) or "")
    listed = _read_listed(tree)
    return Workload(
        name=name,
        summary=summary,
        options=dict(zip(names, defaults, strict=True)),
        meanings=meanings,
        parameters=listed["parameters"],
        sized_by=listed["sized_by"].split(),
        data=[look_for(known, data, option) for option, known in listed["data"].items()],
    )


def _read_listed(tree: ast.Module) -> dict[str, Any]:
    assigned = (node for node in tree.body if isinstance(node, ast.Assign))
    return ast.literal_eval(next(node.value for node in assigned if ast.unparse(node.targets[0]) == "LISTED"))  # type: ignore[no-any-return]


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a job is, and what its options are.

    >>> split_docstring("Words in columns. hidden, layers: its size. data: a folder, or synthetic.")
    ('Words in columns.', {'hidden': 'its size', 'layers': 'its size', 'data': 'a folder, or synthetic'})
    """
    summary, *told = re.split(r"(?<=\.) (?=[a-z_]+(?:, [a-z_]+)*: )", " ".join(text.split()))
    pairs = [part.rstrip(".").split(": ", 1) for part in told]
    return summary, {name: meaning for names, meaning in pairs for name in names.split(", ")}
