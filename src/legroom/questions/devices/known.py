"""What other questions found in the same folder: the critical batch size, and the memory of a device."""

from typing import Any, TypeGuard

from legroom.errors import UsageError
from legroom.logbook import Logbook, read_lines
from legroom.questions.memory.answer import MemoryAnswer
from legroom.questions.rate.answer import RateAnswer


def find_known(logbook: Logbook, device: str, precision: str) -> dict[str, Any]:
    """Fields of the question from the newest answers, where they are of the same file on the same machine."""
    # Imported here: it brings rich, which every child and `import legroom` would pay.
    from legroom.reports.saved_answers import read_answers

    try:
        saved = read_answers(logbook.path.parent)[0]
    except UsageError:  # there are none yet
        return {}
    heads, now = read_lines(logbook.path)[0], logbook.records.head
    answers = [each.answer for each in saved if each.is_of(heads, now.digest, now.machine)]
    rate = next((answer for answer in answers if isinstance(answer, RateAnswer)), None)
    memory = next((answer for answer in answers if _is_of(answer, device, precision)), None)
    found: dict[str, Any] = {}
    if rate is not None and rate.critical_batch_size is not None:
        found |= {"critical_batch_size": rate.critical_batch_size, "critical_range": rate.critical_range}
        found |= {"notes": ["The critical batch size is that of legroom rate in the same folder"]}
    if memory is not None:
        names = ("max_batch_size", "fixed_bytes", "bytes_per_sample", "budget_bytes")
        found["memory"] = {name: float(getattr(memory, name)) for name in names}
    return found


def _is_of(answer: Any, device: str, precision: str) -> TypeGuard[MemoryAnswer]:
    """Whether it is of this device's own memory: not of a card that is not here, nor of other numbers."""
    return (
        isinstance(answer, MemoryAnswer)
        and not answer.estimate
        and (answer.device, str(answer.settings["precision"])) == (device, precision)
    )
