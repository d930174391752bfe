"""The address by which every process finds a job, and the job behind it."""

import builtins
import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from legroom.errors import JobRaised, UsageError
from legroom.job import Job
from legroom.job_files import files_behind, files_in_pickle, find_module, search_path


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAddress:
    """Where a job is found: the same address serves this process, its children, a Ray task and a torchrun rank."""

    text: str
    """"file.py:fn", "package.module:fn" or a built-in name."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Words of `--with name=value`, passed to the function."""
    pickled: bytes | None = None
    """The function itself, where no address reaches it (`__main__`, a notebook)."""
    folder: str | None = None
    """Where its module is found, if not on the usual path."""

    @property
    def name(self) -> str:
        """A short name fit for a folder: file, function and options, so that other jobs get other folders.

        >>> JobAddress(text="/home/me/train.py:small", options={"width": "64"}).name
        'train-small-width=64'
        """
        where, _, function = self.text.partition(":")
        parts = [Path(where).stem if where.endswith(".py") else where, *([function] if function != "job" else [])]
        words = "-".join([part for part in parts if part] + [f"{key}={value}" for key, value in self.options.items()])
        kept = "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in words)
        return kept.strip("-.")[:80] or "job"

    def at_size(self, size: str) -> "JobAddress":
        """The same job with its model at another size, as "width=64"."""
        return replace(self, options={**self.options, MODEL_SIZE: size})

    @property
    def words(self) -> str:
        """As one writes it after a command."""
        return " ".join([self.text, *(f"--with {name}={value}" for name, value in self.options.items())])

    def is_like(self, other: "JobAddress") -> bool:
        """Whether both name one function with one set of options, wherever file and data lie.

        >>> here = JobAddress(text="/home/me/train.py:small", options={"width": "64", "data": "/home/me/data"})
        >>> here.is_like(JobAddress(text="/cluster/train.py:small", options={"width": "64"}))
        True
        """
        mine, others = ({**each.options, "data": ""} for each in (self, other))
        return mine == others and Path(self.text).name == Path(other.text).name

    @property
    def digest(self) -> str:
        """Changes when the job's function, its file or one of the user's files that it imports does.

        Records of an edited job are not taken for its own. Installed packages are not looked at.
        """
        if self.pickled is not None:
            first, others = self.pickled, files_in_pickle(self.pickled)
        elif (found := self._source()) is not None:
            source, root = found
            first, others = source.read_bytes(), files_behind(source, root) if ":" in self.text else []
        else:
            first, others = self.text.encode(), []
        content = hashlib.sha256(first)
        for name, text in others:
            content.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(text).digest())
        return content.hexdigest()[:16]

    def _source(self) -> tuple[Path, Path] | None:
        """The file behind the address and the folder its imports start from; looked for, not imported: that runs it."""
        where = self.text.rpartition(":")[0] if ":" in self.text else self.text
        if where.endswith(".py"):
            return (Path(where), Path(where).parent) if Path(where).is_file() else None
        module = where if ":" in self.text else f"legroom.workloads.{where.replace('-', '_')}"
        return find_module(module, search_path(Path(self.folder) if self.folder else None))


MODEL_SIZE = "model_size"
"""The option that any job has which can be resized: `--with model_size=width=64` asks about it at that size."""
AnyJob = str | Callable[..., Job] | JobAddress
"""How a job may be named: by text, by the function that makes it, or by its address."""


def address_of(job: AnyJob, options: Mapping[str, str] | None = None) -> JobAddress:
    """The address of a job named by text, or of a function that returns one."""
    if isinstance(job, JobAddress):
        return job
    if isinstance(job, str):
        return _address_of_text(job, options or {})
    if not callable(job):
        raise UsageError(f"{job!r} is no job. Pass 'file.py:function', 'package.module:function' or a function")
    words = {name: str(value) for name, value in (options or {}).items()}
    module, name = getattr(job, "__module__", None), getattr(job, "__qualname__", "job")
    if module in (None, "__main__") or "<" in name or "." in name:
        import cloudpickle

        return JobAddress(text=name.replace("<", "").replace(">", ""), options=words, pickled=cloudpickle.dumps(job))
    source = getattr(sys.modules.get(module), "__file__", None)
    folder = str(Path(source).resolve().parents[module.count(".")]) if source else None
    return JobAddress(text=f"{module}:{name}", options=words, folder=folder)


def _address_of_text(text: str, options: Mapping[str, object]) -> JobAddress:
    words = {name: str(value) for name, value in options.items()}
    path, _, function = text.rpartition(":") if ":" in text else (text, "", "job")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise UsageError(f"There is no file {path!r}. Name the job as file.py:function")
        return JobAddress(text=f"{Path(path).resolve()}:{function}", options=words)
    if ":" not in text:
        from legroom.workloads import WORKLOADS

        if text not in WORKLOADS:
            raise UsageError(
                f"{text!r} is {_what(text)}. Write file.py:function or package.module:function; "
                f"built-in jobs: {', '.join(WORKLOADS)}"
            )
    return JobAddress(text=text, options=words)


def _what(text: str) -> str:
    """What a word is that names no job."""
    if Path(text).is_dir():
        return "a folder, no job"
    if Path(text).is_file():
        return "a file, but its name does not end in .py"
    if Path(f"{text}.py").is_file():
        return f"no job, but there is a file {text}.py"
    return "no built-in job and no address"


def load_job(job: "str | Callable[..., Job] | JobAddress", options: Mapping[str, str] | None = None) -> Job:
    """Import the function behind the address and call it. Runs the user's code: only a child calls this."""
    address = address_of(job, options)
    function = _find_function(address)
    words, size = dict(address.options), ""
    if MODEL_SIZE not in inspect.signature(function).parameters:
        size = words.pop(MODEL_SIZE, "")
    made = function(**_convert(address.text, function, words))
    if not isinstance(made, Job):
        raise JobRaised(
            f"{address.text} returned a {type(made).__name__}; legroom needs a Job. "
            "Return legroom.Job(model=..., train_data=..., loss=..., optimizer=...); see docs/job.md"
        )
    return replace(made, baseline=replace(made.baseline, model_size=size)) if size else made


def _find_function(address: JobAddress) -> Callable[..., Any]:
    if address.pickled is not None:
        import cloudpickle

        return cloudpickle.loads(address.pickled)  # type: ignore[no-any-return]
    where, _, name = address.text.rpartition(":") if ":" in address.text else (address.text, "", "job")
    if where.endswith(".py"):
        # The folder joins sys.path and the file is imported by its name, so that loader workers that start
        # anew (spawn, forkserver) can import it as well.
        sys.path.insert(0, str(Path(where).parent))
        module = importlib.import_module(Path(where).stem)
        if Path(inspect.getsourcefile(module) or "").resolve() != Path(where).resolve():
            raise UsageError(f"{where} cannot be imported: another module is called {module.__name__!r}. Rename it")
    elif ":" in address.text:
        if address.folder is not None:
            sys.path.insert(0, address.folder)
        module = _import_named(where)
    else:
        module = importlib.import_module(f"legroom.workloads.{where.replace('-', '_')}")
    function = getattr(module, name, None)
    if not callable(function):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value) and key[0] != "_"]
        raise UsageError(f"{where} has no function {name!r}. It has: {', '.join(functions) or 'none'}")
    return function  # type: ignore[no-any-return]


def _import_named(name: str) -> types.ModuleType:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise UsageError(f"There is no module {name!r} on this path. Name the job as package.module:function")
    return importlib.import_module(name)


def _convert(where: str, function: Callable[..., Any], options: Mapping[str, str]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    for name in options:
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise UsageError(f"{where} has no option {name!r}. Its options: {known}")
    for name, parameter in parameters.items():
        is_one = parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if is_one and parameter.default is inspect.Parameter.empty and name not in options:
            raise UsageError(f"{where} needs {name!r} and has no default for it. Add --with {name}=value")
    return {name: _convert_one(name, word, parameters[name]) for name, word in options.items()}


def _convert_one(name: str, word: str, parameter: inspect.Parameter) -> Any:
    wanted = parameter.annotation
    if isinstance(wanted, str):
        wanted = getattr(builtins, wanted, str)
    if wanted is inspect.Parameter.empty:
        wanted = type(parameter.default) if parameter.default not in (inspect.Parameter.empty, None) else str
    if get_origin(wanted) in (Union, types.UnionType):
        wanted = next((kind for kind in get_args(wanted) if kind is not type(None)), str)
    if get_origin(wanted) is Literal:
        if word not in get_args(wanted):
            raise UsageError(f"Option {name}={word} must be one of {', '.join(map(str, get_args(wanted)))}")
        return word
    try:
        return json.loads(word.lower()) if wanted is bool else wanted(word)
    except (ValueError, TypeError):
        kinds = {int: "a whole number", float: "a number", bool: "true or false"}
        raise UsageError(f"Option {name}={word} must be {kinds.get(wanted, wanted)}") from None


def out_folder(address: JobAddress, out: Path | None = None) -> Path:
    """Where records of that job go."""
    return out or Path("legroom-out") / address.name
