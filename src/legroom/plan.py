"""What to do: recommendations with value, range, reason and evidence, in a plan people can read and edit."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.records.environments import check_allocator


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One number to use, and why."""

    name: str
    value: Any
    range: tuple[Any, Any] | None
    """Between which values it may lie; None where nothing was measured."""
    because: str
    evidence: list[str] = field(default_factory=list)
    """Kinds of the records it rests on; empty where nothing was measured."""


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
    document["notes"] = list(plan.notes)
    document["not_measured"] = list(plan.not_measured)
    for item in plan.recommendations:
        document[item.name] = _table(item)
    write_atomically(path, tomlkit.dumps(document))


def _table(item: Recommendation) -> dict[str, Any]:
    # TOML has no null: a value nobody set, and a range nobody measured, are left out.
    table = {"value": item.value, "because": item.because, "evidence": item.evidence}
    if item.range is not None:
        table["range"] = list(item.range)
    return {name: value for name, value in table.items() if value is not None}


def read_plan(path: Path) -> Plan:
    """Read plan.toml as a person may have changed it."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        data = tomlkit.parse(path.read_text()).unwrap()
    except OSError as error:
        raise UsageError(f"Cannot read the plan {path}: {error.strerror}. legroom plan writes one") from None
    except TOMLKitError as error:
        raise UsageError(f"{path} is no TOML: {error}. Mend it, or write it anew with legroom plan") from None
    tables = {name: value for name, value in data.items() if isinstance(value, dict) and name != "options"}
    known = {item.name for item in fields(Settings)} | {"max_batch_size", "eval_batch_size", "allocator"}
    for name in tables:
        if name not in known:
            raise UsageError(f"{path} has a table [{name}] that no plan has. Known: {', '.join(sorted(known))}")
    check_allocator(tables.get("allocator", {}).get("value", "default"), f"The allocator in {path}")
    return Plan(
        job=data.get("job", ""),
        options=data.get("options", {}),
        machine=data.get("machine", ""),
        goal=data.get("goal", ""),
        settings=_settings(path, tables),
        recommendations=[_recommendation(name, table) for name, table in tables.items()],
        notes=data.get("notes", []),
        not_measured=data.get("not_measured", []),
    )


def _settings(path: Path, tables: Mapping[str, Any]) -> Settings:
    known = {item.name for item in fields(Settings)}
    values = {name: table["value"] for name, table in tables.items() if name in known and "value" in table}
    try:
        return Settings(**values)
    except TypeError:
        raise UsageError(f"{path} has a value of the wrong kind among: {values}") from None


def _recommendation(name: str, table: Mapping[str, Any]) -> Recommendation:
    span = table.get("range")
    return Recommendation(
        name=name,
        value=table.get("value"),
        range=(span[0], span[1]) if span else None,
        because=table.get("because", "set by hand"),
        evidence=list(table.get("evidence", [])),
    )


def write_atomically(path: Path, text: str) -> None:
    """Write the file under another name and move it into place, so that nobody reads half of it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
