"""What the records say of each variant: how much faster its steps are, whether that pays, and whether it learns."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from legroom.laws.intervals import ratio_mean
from legroom.logbook import Entry
from legroom.questions.variants.records import (
    NUM_SEEDS,
    VARIANTS,
    Names,
    TimeVariant,
    TrainVariant,
    VariantLosses,
    VariantsQuestion,
    VariantTimed,
)
from legroom.questions.variants.spread import Part, compare

LEAST_GAIN = 1.02
"""How many times faster steps must be, at the low end of the range, to pay: a machine drifts by as much."""
MOST_LOOKS = 3
MORE_MEMORY = 1.02
"""Times the memory of the job's own steps, above which a variant is refused: what was proved to fit might not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How much faster steps are with some variants."""

    names: Names
    ratio: float
    """Own seconds through the variant's: above 1 it is faster."""
    range: tuple[float, float]
    own_seconds: float
    start_seconds: float
    memory_ratio: float
    """Memory of a GPU with them, through that without; 1 where nobody looked."""

    @property
    def step_seconds(self) -> float:
        """Of an update with them."""
        return self.own_seconds / self.ratio

    @property
    def pays_after(self) -> float:
        """Updates that make up for the start; infinite where steps are no faster."""
        gained = self.own_seconds - self.step_seconds
        return self.start_seconds / gained if gained > 0 else float("inf")

    def run_seconds(self, num_steps: int) -> float:
        """Of the updates of a run, the start included."""
        return self.start_seconds + num_steps * self.step_seconds

    @property
    def is_faster(self) -> bool:
        """Whether steps surely are, in no more memory."""
        return self.range[0] > LEAST_GAIN and self.memory_ratio <= MORE_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was measured for one question."""

    question: VariantsQuestion
    timed: Mapping[Names, Sequence[VariantTimed]]
    """All looks at them."""
    losses: Mapping[Names, Mapping[int, Sequence[float]]]
    """By seed; those of the job's own settings under no name."""

    def timing(self, names: Names) -> Timing | None:
        """How fast steps are with these; None where that was not measured."""
        looks = [look for look in self.timed.get(names, ()) if look.outcome == "measured"]
        if not looks:
            return None
        pairs = [pair for look in looks for pair in zip(look.own_seconds, look.variant_seconds, strict=True)]
        ratio, span = ratio_mean([own / other for own, other in pairs])
        first, knows_memory = looks[0], looks[0].own_peak_bytes and looks[0].variant_peak_bytes
        return Timing(
            names=names,
            ratio=ratio,
            range=span or (ratio, ratio),
            own_seconds=statistics.median(own for own, _ in pairs),
            # What only a compiler takes is more than the first step of any kind: allocators and caches fill once.
            start_seconds=first.start_seconds if "compile" in names else 0.0,
            memory_ratio=first.variant_peak_bytes / first.own_peak_bytes if knows_memory else 1.0,
        )

    def pays(self, names: Names) -> bool:
        """Whether a run is surely sooner with them, the start included."""
        timing = self.timing(names)
        if timing is None or not timing.is_faster:
            return False
        return not timing.start_seconds or timing.pays_after < (self.question.num_steps or 0)

    def parts(self, names: Names) -> list[Part] | None:
        """Their losses beside those of the job's own settings; None where seeds are lacking."""
        own, mine = (self.losses.get(each, {}) for each in ((), names))
        seeds = [int(self.question.settings["seed"]) + more for more in range(NUM_SEEDS)]
        if any(seed not in found for found in (own, mine) for seed in seeds):
            return None
        return compare([own[seed] for seed in seeds], [mine[seed] for seed in seeds])

    def stays(self, names: Names) -> bool | None:
        """Whether their losses stay within the spread over seeds; None where that is not known."""
        parts = self.parts(names)
        return None if parts is None else not any(part.leaves for part in parts)

    @property
    def step_seconds(self) -> float | None:
        """Of an update by the job's own settings, by what was timed first."""
        found = next((looks[0].own_seconds for looks in self.timed.values() if looks[0].own_seconds), None)
        return statistics.median(found) if found else None

    def is_open(self, names: Names) -> bool:
        """Whether another look could tell if they pay: steps seem faster, and the range says that it may be noise.

        One that compiles takes too long to be looked at again.
        """
        timing, num_looks = self.timing(names), len(self.timed.get(names, ()))
        if timing is None or "compile" in names:
            return num_looks == 0
        return num_looks < MOST_LOOKS and timing.range[0] <= LEAST_GAIN < timing.ratio


def read_evidence(entries: Iterable[Entry], question: VariantsQuestion) -> Evidence:
    """The evidence among the entries; what was asked about other settings or devices is none."""
    timed: dict[Names, list[VariantTimed]] = {}
    losses: dict[Names, dict[int, Sequence[float]]] = {}
    for entry in entries:
        request, result = entry.request, entry.result
        if isinstance(request, TimeVariant) and isinstance(result, VariantTimed) and _is_asked(request, question):
            timed.setdefault(_names(request.changes), []).append(result)
        if isinstance(request, TrainVariant) and isinstance(result, VariantLosses) and _is_trained(request, question):
            losses.setdefault(_names(request.changes), {})[int(request.settings["seed"])] = result.losses
    return Evidence(question=question, timed=timed, losses=losses)


def _is_asked(request: TimeVariant, question: VariantsQuestion) -> bool:
    return (request.device, dict(request.settings)) == (question.device, dict(question.settings))


def _is_trained(request: TrainVariant, question: VariantsQuestion) -> bool:
    seed = int(request.settings["seed"]) - int(question.settings["seed"])
    return request == question.train(_names(request.changes), seed, request.num_steps)


def _names(changes: Mapping[str, Any]) -> Names:
    """The variants that make up these changes."""
    return tuple(name for name, change in VARIANTS.items() if change.items() <= changes.items())
