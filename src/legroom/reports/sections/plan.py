"""What to run, as a section: every recommendation with its reason."""

from collections.abc import Sequence

from legroom.advisors.combine import PlanAnswer
from legroom.reports.sections.base import Column, Section, Table


def section(answer: PlanAnswer, others: Sequence[PlanAnswer] = ()) -> Section:
    """The section; a folder holds one plan, so there are no others."""
    batch = f"batches of {answer.batch_size:,}"
    if answer.accumulation_steps > 1:
        batch += f", {answer.accumulation_steps} passes an update"
    measured = [item.name for item in answer.recommendations if item.evidence]
    return Section(
        title="What should I run?",
        summary=f"Run {batch} with a rate of {answer.learning_rate:g} and {answer.num_workers} loader workers; "
        f"{len(measured)} of {len(answer.recommendations)} settings rest on measurements.",
        facts=[],
        tables=[_recommendations(answer)],
    )


def circumstances(answer: PlanAnswer) -> tuple[object, ...]:
    """A later plan replaces an earlier one."""
    return ()


def _recommendations(answer: PlanAnswer) -> Table:
    return Table(
        name="plan-settings",
        title="Every setting",
        columns=[Column(label=label) for label in ("setting", "value", "range", "because")],
        rows=[
            [item.name, item.value, "" if item.range is None else "{} to {}".format(*item.range), item.because]
            for item in answer.recommendations
        ],
        chosen=[place for place, item in enumerate(answer.recommendations) if item.evidence],
    )
