"""Jobs ready by name; `legroom jobs` lists them. Each is a module here with a function `job`."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

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
    """A built-in job, as its source describes it."""

    name: str
    summary: str
    options: dict[str, str]
    """Default of each option of `--with`, as written."""
    meanings: dict[str, str]
    """What each option is, where the job says so."""


def list_workloads() -> list[Workload]:
    """Every built-in job. Its source is read, not imported: importing torch would cost the listing two seconds."""
    return [_read(name) for name in WORKLOADS]


def _read(name: str) -> Workload:
    source = Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text()
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "job")
    names = [argument.arg for argument in function.args.args]
    defaults = [ast.unparse(default) for default in function.args.defaults]
    summary, meanings = split_docstring(ast.get_docstring(function) or "")
    return Workload(name=name, summary=summary, options=dict(zip(names, defaults, strict=True)), meanings=meanings)


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a job is, and what its options are.

    >>> split_docstring("Words in columns. hidden, layers: its size. data: a folder, or synthetic.")
    ('Words in columns.', {'hidden': 'its size', 'layers': 'its size', 'data': 'a folder, or synthetic'})
    """
    summary, *told = re.split(r"(?<=\.) (?=[a-z_]+(?:, [a-z_]+)*: )", " ".join(text.split()))
    pairs = [part.rstrip(".").split(": ", 1) for part in told]
    return summary, {name: meaning for names, meaning in pairs for name in names.split(", ")}
