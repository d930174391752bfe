"""plan.toml: a plan as people read and change it, and every mistake in it told with its line."""

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from legroom.environments import check_allocator, read_environment
from legroom.errors import UsageError
from legroom.files import write_atomically
from legroom.job import Settings
from legroom.questions.base import Recommendation, read_target
from legroom.setting_rules import is_number, lacks
from legroom.training.schedule_text import check_schedule

SETTINGS = tuple(item.name for item in fields(Settings))
FOR_PEOPLE = ("max_batch_size", "eval_batch_size")
"""Tables that say how far one could go; nothing is trained with them."""
LENGTH = "num_steps"
"""The table of a run's length in updates, which goes before num_epochs."""
TABLES = (*SETTINGS, LENGTH, *FOR_PEOPLE, "allocator", "environment")
GOALS, EARLIER_GOALS = ("fastest", "cheapest", "frugal"), ("time", "")
"""What a plan may seek, and what the first versions wrote."""
MAY_LACK_VALUE = ("clip_norm", "eval_batch_size", "bucket_cap_mb")
"""TOML has no null: what nobody set is left out."""


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_target(value: Any) -> bool:
    try:
        read_target(value if isinstance(value, str) else "")
    except UsageError:
        return False
    return True


TOP: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("job", "machine"), (_is_text, "text in quotes")),
    "goal": (lambda value: value in (*GOALS, *EARLIER_GOALS), f"one of {', '.join(GOALS)}"),
    **dict.fromkeys(("notes", "not_measured"), (_is_texts, "a list of sentences")),
    "options": (lambda value: isinstance(value, dict), "a table of the job's --with options"),
    "target": (_is_target, 'text such as "score=0.97" or "loss=0.1"'),
    **dict.fromkeys(("predicted_seconds", "cost_seconds"), (_is_seconds, "a number of seconds of at least 0")),
    "predicted_range": (
        lambda value: isinstance(value, list) and len(value) == 2 and all(map(_is_seconds, value)),
        "a list of two numbers of seconds",
    ),
    "written": (lambda value: isinstance(value, dict), "the table that legroom wrote"),
}
INSIDE: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "value": (lambda value: not isinstance(value, dict | list), "one value"),
    "because": (_is_text, "text in quotes"),
    "evidence": (_is_texts, "a list of words"),
    "range": (
        lambda value: isinstance(value, list) and len(value) == 2 and all(map(is_number, value)),
        "a list of two numbers",
    ),
}
"""Keys at the top of the file, and of a setting's table: whether a value will do, and what it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All recommendations for one job on one machine."""

    job: str
    options: Mapping[str, str]
    machine: str
    goal: str
    settings: Settings
    recommendations: list[Recommendation]
    notes: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)
    target: str = ""
    """What its run is to reach, as "score=0.97"; empty where nothing was said."""
    predicted_seconds: float | None = None
    """To the target."""
    predicted_range: tuple[float, float] | None = None
    cost_seconds: float | None = None
    """What making the plan took."""
    edited: bool = False
    """Whether the settings or the target are not those that legroom wrote, of which the forecast was."""

    def value(self, name: str) -> Any:
        """What is recommended under that name; None where nothing is."""
        return next((item.value for item in self.recommendations if item.name == name), None)


def write_plan(plan: Plan, path: Path) -> None:
    """Write plan.toml, whole or not at all."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("Made by legroom. Any value may be changed by hand; legroom reads it back."))
    document["job"] = plan.job
    if plan.options:
        document["options"] = dict(plan.options)
    document["machine"] = plan.machine
    document["goal"] = plan.goal
    for name in ("target", "predicted_seconds", "predicted_range", "cost_seconds"):
        value = getattr(plan, name)
        if value not in ("", None):
            document[name] = list(value) if isinstance(value, tuple) else value
    document["notes"] = list(plan.notes)
    document["not_measured"] = list(plan.not_measured)
    for item in plan.recommendations:
        document[item.name] = _table(item)
    document["written"] = {"digest": _digest(plan.target, {item.name: item.value for item in plan.recommendations})}
    write_atomically(path, tomlkit.dumps(document))


def _table(item: Recommendation) -> dict[str, Any]:
    table = {"value": item.value, "because": item.because, "evidence": item.evidence}
    if item.range is not None:
        table["range"] = list(item.range)
    return {name: value for name, value in table.items() if value is not None}


def _digest(target: str, values: Mapping[str, Any]) -> str:
    """Changes with what a forecast is of: the target, and all settings but the seed that a run takes."""
    of_run = {name: value for name, value in values.items() if name not in (*FOR_PEOPLE, "seed") and value is not None}
    return hashlib.sha256(json.dumps([target, of_run], sort_keys=True).encode()).hexdigest()[:16]


def read_plan(path: Path) -> Plan:
    """Read plan.toml as a person may have changed it; what is wrong is refused with its line.

    The forecast of one whose settings were changed is left out: it was of others.
    """
    text = _text(path)
    data = _parse(path, text)
    tables = {name: value for name, value in data.items() if name in TABLES}
    _check_top(path, text, data)
    for name, table in tables.items():
        _check_table(path, text, name, table)
    if not tables:
        raise UsageError(f"{path} names no setting. Write a table such as [batch_size], or let legroom plan write it")
    values = {name: table.get("value") for name, table in tables.items()}
    written = data.get("written", {}).get("digest")
    edited = written not in (None, _digest(data.get("target", ""), values))
    forecast = {} if edited else data
    return Plan(
        job=data.get("job", ""),
        options=data.get("options", {}),
        machine=data.get("machine", ""),
        goal=data.get("goal", ""),
        settings=Settings(**{name: tables[name]["value"] for name in SETTINGS if "value" in tables.get(name, {})}),
        recommendations=[_recommendation(name, table) for name, table in tables.items()],
        notes=data.get("notes", []),
        not_measured=data.get("not_measured", []),
        target=data.get("target", ""),
        predicted_seconds=forecast.get("predicted_seconds"),
        predicted_range=tuple(forecast["predicted_range"]) if "predicted_range" in forecast else None,
        edited=edited,
        cost_seconds=data.get("cost_seconds"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder. Name the file in it: {path / 'plan.toml'}") from None
    except OSError as error:
        raise UsageError(f"Cannot read the plan {path}: {error.strerror}. legroom plan writes one") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text. Name the plan.toml that legroom plan wrote") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return dict(tomlkit.parse(text).unwrap())
    except TOMLKitError as error:
        raise UsageError(f"{path} is no TOML: {error}. Mend it, or write it anew with legroom plan") from None


def _check_top(path: Path, text: str, data: Mapping[str, Any]) -> None:
    for name, value in data.items():
        if name in TABLES:
            continue
        if name not in TOP:
            what = f"a table [{name}]" if isinstance(value, dict) else f"a key {name!r}"
            close = ", ".join(difflib.get_close_matches(name, (*TOP, *TABLES)))
            known = f"Close to it: {close}" if close else f"Known: {', '.join(TOP)}; tables: {', '.join(TABLES)}"
            raise UsageError(f"{_where(path, text, name)} has {what} that no plan has. {known}")
        fits, wanted = TOP[name]
        if not fits(value):
            raise UsageError(f"{_where(path, text, name)}: {name} is {_shown(value)}; it must be {wanted}")


def _check_table(path: Path, text: str, name: str, table: Any) -> None:
    if not isinstance(table, dict):
        where = _where(path, text, name)
        raise UsageError(
            f"{where}: {name} is no table. Write [{name}] and below it value = ..., after the keys at the top"
        )
    for key, value in table.items():
        if key not in INSIDE:
            where = _where(path, text, name, key)
            raise UsageError(f"{where}: [{name}] has a key {key!r} that no plan has. Known: {', '.join(INSIDE)}")
        fits, wanted = INSIDE[key]
        if not fits(value):
            where = _where(path, text, name, key)
            raise UsageError(f"{where}: {key} of [{name}] is {_shown(value)}; it must be {wanted}")
    if "value" in table:
        _check_value(_where(path, text, name, "value"), name, table["value"])
    elif name not in MAY_LACK_VALUE:
        raise UsageError(f"{_where(path, text, name)}: [{name}] has no value. Write value = ..., or remove the table")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _check_value(where: str, name: str, value: Any) -> None:
    if name == "allocator":
        check_allocator(value, f"{where}: allocator")
        return
    if name == "environment":
        read_environment(value, f"{where}: environment")
        return
    if wanted := lacks("batch_size" if name in (LENGTH, *FOR_PEOPLE) else name, value):
        if name in MAY_LACK_VALUE:  # TOML has no word for None
            wanted = f"{wanted.removesuffix(', or None')}; to have none, remove the line"
        raise UsageError(f"{where}: {name} is {_shown(value)}; it must be {wanted}")
    if name == "schedule":
        try:
            check_schedule(value)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None


def place_of(path: Path, name: str) -> str:
    """The file and the line of a setting's value; the file alone where it names none."""
    return _where(path, _text(path), name, "value")


def _where(path: Path, text: str, name: str, key: str = "") -> str:
    """The file and, where it is written plainly, the line of a table, of a key in it, or of a key at the top."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if word.startswith("["):
            table = word.partition("#")[0].strip(" []\"'")
            found = table == name and not key
        else:
            left = word.partition("=")[0].strip(" \"'")
            found = (table, left) in ((name, key), ("", name)) and "=" in word
        if found:
            return f"{path}, line {number}"
    return str(path)


def _recommendation(name: str, table: Mapping[str, Any]) -> Recommendation:
    span = table.get("range")
    return Recommendation(
        name=name,
        value=table.get("value"),
        range=(span[0], span[1]) if span else None,
        because=table.get("because", "set by hand"),
        evidence=list(table.get("evidence", [])),
    )
