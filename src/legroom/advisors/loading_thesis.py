"""Workers and batch by the thesis' rule, for comparison with ours on the same job."""

from collections.abc import Sequence
from dataclasses import replace

from legroom.advisors.loading import LoadingAnswer, advise_loading
from legroom.laws.thesis import SIZES
from legroom.logbook import Logbook
from legroom.plan import Recommendation
from legroom.records import LoadingQuestion

LEFT_OUT = "other numbers of workers: the rule tries none"


def advise_loading_thesis(
    logbook: Logbook, question: LoadingQuestion, ratios: Sequence[float], notes: Sequence[str]
) -> LoadingAnswer:
    """Its W and B, with the rate that they reached here."""
    answer = advise_loading(logbook, question)
    shown = " and ".join(f"{ratio:.2f} at a batch of {size}" for ratio, size in zip(ratios, SIZES, strict=True))
    devices = "1 device" if question.num_devices == 1 else f"{question.num_devices} devices"
    because = f"fetching takes {shown} times as long as a step, on {devices}"
    made = [
        Recommendation(
            name="num_workers", value=answer.num_workers, range=None, because=because, evidence=["loader_rates"]
        ),
        Recommendation(
            name="batch_size",
            value=question.batch_size,
            range=None,
            because="the largest that the limit on the batch and host memory allow (eq. 4.13 to 4.17)",
            evidence=["loader_rates"],
        ),
    ]
    kept = [note for note in answer.notes if not note.startswith("No number of workers")]
    return replace(answer, notes=[*kept, *notes], not_measured=[*answer.not_measured, LEFT_OUT], recommendations=made)
