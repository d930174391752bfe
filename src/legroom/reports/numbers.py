"""Numbers as people read them: values with their unit, and throughputs as the time of an epoch."""

from typing import Any

from legroom.questions.base import Answer
from legroom.units import format_bytes, format_seconds


def quantity(value: Any, unit: str = "") -> str:
    """A value as a person reads it.

    >>> quantity(1536, "bytes"), quantity(0.974, "share"), quantity(12345), quantity(None)
    ('1.5 KiB', '97 %', '12,345', '')
    """
    if value is None or value == "":
        return ""
    if isinstance(value, str | bool) or not isinstance(value, int | float):
        return str(value)
    match unit:
        case "bytes":
            return format_bytes(value)
        case "exact bytes":  # budgets that differ must read differently
            return format_bytes(value, most_digits=3)
        case "seconds":
            return f"{value * 1000:.3g} ms" if value < 0.1 else format_seconds(value)
        case "share":
            return f"{value * 100:.0f} %"
        case "samples/s":
            return f"{value:,.0f}/s"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def target_words(text: str) -> str:
    """A target in few digits; plans hold them all, since a score of 357 in 360 must meet itself.

    >>> target_words("score=0.9916666666666667"), target_words("")
    ('score 0.9917', 'the target')
    """
    name, _, value = text.partition("=")
    return f"{name} {float(value):.4g}" if value else "the target"


def epoch_label(answer: Answer) -> str:
    """What `epoch_seconds` measures, in words."""
    return "time of 1,000 samples" if _num_samples(answer) is None else "time of an epoch"


def epoch_seconds(answer: Answer, samples_per_second: float) -> float | None:
    """Seconds of an epoch, or of 1,000 samples where its length is unknown; None where nothing was measured."""
    return (_num_samples(answer) or 1000) / samples_per_second if samples_per_second else None


def _num_samples(answer: Answer) -> int | None:
    return getattr(answer, "num_samples", None)
