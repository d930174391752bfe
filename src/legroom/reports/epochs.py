"""How long an epoch takes at a rate; where the data set's length is unknown, how long a thousand samples take."""

from legroom.questions.base import Answer


def samples_in_epoch(answer: Answer) -> int | None:
    """How many samples an epoch has, where the answer knows."""
    return getattr(answer, "num_samples", None)


def epoch_label(answer: Answer) -> str:
    """What `epoch_seconds` are the seconds of."""
    return "time of 1,000 samples" if samples_in_epoch(answer) is None else "time of an epoch"


def epoch_seconds(answer: Answer, samples_per_second: float) -> float | None:
    """Seconds of an epoch; None where nothing was measured."""
    return (samples_in_epoch(answer) or 1000) / samples_per_second if samples_per_second else None
