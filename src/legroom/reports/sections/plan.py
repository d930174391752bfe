"""What to run, as a section: every recommendation with its reason."""

from collections.abc import Sequence

from legroom.advisors.combine import PlanAnswer, split_recommendations
from legroom.reports.sections.base import Column, Section, Table


def section(answer: PlanAnswer, others: Sequence[PlanAnswer] = ()) -> Section:
    """The section; a folder holds one plan, so there are no others."""
    batch = f"batches of {answer.batch_size:,}"
    if answer.accumulation_steps > 1:
        batch += f", {answer.accumulation_steps} passes an update"
    kept = {item.name for item in split_recommendations(answer)[1]}
    own = " (the job's own rate: which one suits was not measured)" if "learning_rate" in kept else ""
    rate = f"a learning rate of {answer.learning_rate:g}{own}"
    return Section(
        title="What should I run?",
        summary=f"Run {batch} with {_workers(answer.num_workers)} and {rate}.",
        facts=[],
        tables=[_recommendations(answer)],
    )


def _workers(num: int) -> str:
    return {0: "no loader workers", 1: "1 loader worker"}.get(num, f"{num} loader workers")


def circumstances(answer: PlanAnswer) -> tuple[object, ...]:
    """A later plan replaces an earlier one."""
    return ()


def _recommendations(answer: PlanAnswer) -> Table:
    found, kept = split_recommendations(answer)
    rows = [
        [item.name, item.value, "" if item.range is None else "{:,} to {:,}".format(*item.range), item.because]
        for item in found
    ]
    rest = ", ".join(f"{item.name} {'none' if item.value is None else item.value}" for item in kept)
    return Table(
        name="plan-settings",
        title="Every setting",
        columns=[
            *(Column(label=label) for label in ("setting", "value", "range")),
            Column(label="because", sentences=True),
        ],
        rows=[*rows, ["the rest", "", "", f"kept as the job has them, not measured: {rest}"]],
    )
