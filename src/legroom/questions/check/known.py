"""What a logbook says of the time in which a plan was made: whose, by which torch, and how long its steps took."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from legroom.errors import UsageError
from legroom.laws.time_to_target import compute_seconds
from legroom.logbook import FILE_NAME, Entry, RunStarted, read_lines
from legroom.questions.speed.records import StepTimes, TimeSteps
from legroom.questions.variants.records import TimeVariant, VariantTimed
from legroom.requests import JobDescription

TIMED, BETWEEN = 1.1, 1.25
"""Factors both ways within which a step is as fast as it was: at a size that was timed, and between two that were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a folder holds of the runs that a plan was made of."""

    head: RunStarted | None = None
    """Of the last run of `legroom plan`, or else of any."""
    description: JobDescription | None = None
    entries: Sequence[Entry] = ()


def known_of(folder: Path) -> Known:
    """What lies beside a plan; nothing where there is no logbook."""
    path = folder / FILE_NAME
    heads, entries, _ = read_lines(path) if path.is_file() else ([], [], 0)
    heads = [head for head in heads if head.command != "check"]
    if not heads:
        return Known()
    head = next((head for head in reversed(heads) if head.command == "plan"), heads[-1])
    same = {other.run for other in heads if (other.digest, other.machine) == (head.digest, head.machine)}
    mine = [entry for entry in entries if entry.run in same]
    described = [entry.result for entry in mine if isinstance(entry.result, JobDescription)]
    return Known(head=head, description=described[-1] if described else None, entries=mine)


def expected_step(known: Known, wanted: TimeSteps) -> tuple[float, tuple[float, float]] | None:
    """Seconds of such a step by what was timed, with a range; None where no size was timed in the same way."""
    seen: dict[int, list[float]] = {}
    for timed, seconds in (*_timed(known.entries, wanted), *_in_turns(known.entries, wanted)):
        seen.setdefault(timed, []).append(seconds)
    if not seen:
        return None
    sizes, (size,) = sorted(seen), wanted.batch_sizes
    seconds = compute_seconds(size, sizes, [statistics.median(seen[each]) for each in sizes])
    if size not in seen:
        return seconds, (seconds / BETWEEN, seconds * BETWEEN)
    return seconds, (min(*seen[size], seconds / TIMED), max(*seen[size], seconds * TIMED))


def _timed(entries: Iterable[Entry], wanted: TimeSteps) -> Iterable[tuple[int, float]]:
    """Batch sizes and seconds of steps that were timed alone, as wanted."""
    for entry in entries:
        asked, result = entry.request, entry.result
        if isinstance(asked, TimeSteps) and isinstance(result, StepTimes):
            same = (asked.device, asked.precision, asked.environment, asked.options)
            if same == (wanted.device, wanted.precision, wanted.environment, wanted.options):
                measured = (point for point in result.points if point.outcome == "measured")
                yield from ((point.batch_size, point.median_seconds) for point in measured)


def _in_turns(entries: Iterable[Entry], wanted: TimeSteps) -> Iterable[tuple[int, float]]:
    """The same of variants of the step, which are timed in turns with the job's own."""
    for entry in entries:
        asked, result = entry.request, entry.result
        if not isinstance(asked, TimeVariant) or not isinstance(result, VariantTimed) or not result.variant_seconds:
            continue
        options = {name: value for name, value in asked.changes.items() if name != "precision"}
        settings = {**asked.settings, **asked.changes}
        same = (asked.device, settings.get("precision"), asked.environment, options)
        if same == (wanted.device, wanted.precision, wanted.environment, wanted.options):
            passes = int(settings["accumulation_steps"])
            yield int(settings["batch_size"]), statistics.median(result.variant_seconds) / passes


def differences(
    known: Known, digest: str, description: JobDescription, version: str, driver: str = ""
) -> Iterable[str]:
    """What is not as it was, a sentence each."""
    before_driver = known.head.question.get("driver", "") if known.head is not None else ""
    if before_driver and driver and before_driver != driver:
        yield f"The GPU's driver was {before_driver} and is {driver}"
    if known.head is not None and known.head.digest != digest:
        yield "The job's file, or one that it imports, has changed"
    if known.head is not None and known.head.legroom_version != version:
        yield f"legroom was {known.head.legroom_version} and is {version}"
    before = known.description
    if before is None:
        return
    for name, words in (
        ("torch_version", "torch"),
        ("num_trainable", "the number of trained parameters"),
        ("num_samples", "the number of training samples"),
        ("sample_bytes", "the size of samples (smallest, median, largest)"),
        ("optimizer_name", "the optimizer"),
    ):
        was, now = getattr(before, name), getattr(description, name)
        if was != now and was != "":
            yield f"{words[:1].upper()}{words[1:]} was {_word(was)} and is {_word(now)}"


def _word(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def folder_of(path: Path, out: Path | None) -> Path | None:
    """Where a check writes: where it is told to, else beside the plan's own logbook, else where jobs write."""
    if out is not None and out.resolve() == path.resolve():
        raise UsageError(f"--out names the plan {path} itself. Name a folder")
    return out or (path.parent if (path.parent / FILE_NAME).is_file() else None)
