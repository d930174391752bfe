"""Plans for models of other sizes: counted first, then each for the target of the job's own, within one budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from legroom.clock import Clock
from legroom.errors import JobError, NothingMeasured
from legroom.questions.plan.answer import PlanAnswer
from legroom.questions.plan.asking import Search
from legroom.questions.plan.records import SizedPlan
from legroom.questions.size.ask import count_values
from legroom.session import Run

NO_TARGET = "sizes are compared at a target, and none is known. Name a --target, or raise --budget"
LATE = "the budget left no time for it. Raise --budget"


@dataclass
class Sizes:
    """Of what varies, the values that are planned for."""

    name: Any
    values: Sequence[int]
    num_parameters: dict[int, int] = field(default_factory=dict)

    @property
    def num_plans(self) -> int:
        """With that of the job's own size."""
        return 1 + len(self.values)

    def count(self, search: Search) -> None:
        """How many parameters each has; refused where the job cannot make them. The job's own is planned for anyway."""
        with search.session() as session:
            session.describe(search.run.seed)
            values, counted = count_values(session, self.name, self.values)
        found = dict(zip(values, counted.num_parameters, strict=True))
        self.num_parameters = {value: num for value, num in found.items() if value != counted.own}

    def part_of(self, run: Run, place: int) -> Run:
        """The run with the progress of one plan as a part of all."""
        first, num = f"{self.name}={self.values[place - 1]}: " if place else "", self.num_plans
        return replace(
            run,
            progress=lambda what, share: run.progress(first + what, (place + share) / num),
            found=lambda sentence: run.found(first + sentence),
        )

    def ask_each(
        self,
        target: str,
        ask: Callable[[int, str, str, float], PlanAnswer],
        until: float,
        clock: Clock,
        least: float,
    ) -> list[SizedPlan]:
        """A plan for each size, to the target of the job's own; ask: by place, size, target and seconds.

        target: empty where nobody knows it.
        """
        found: list[SizedPlan] = []
        for place, value in enumerate(self.values, start=1):
            if value not in self.num_parameters:
                continue
            size, seconds = f"{self.name}={value}", (until - clock()) / (self.num_plans - place)
            plan, why = None, NO_TARGET if not target else LATE if seconds < least else ""
            if not why:
                try:
                    plan = ask(place, size, target, seconds)
                except (JobError, NothingMeasured) as error:
                    why = str(error)
            found.append(SizedPlan(model_size=size, num_parameters=self.num_parameters[value], plan=plan, why=why))
        return found
