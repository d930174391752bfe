"""The estimate of a job's memory on a GPU that two traces of its step give, and how a logbook keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from legroom.environments import Allocator as Kind
from legroom.laws.memory import Line, MemoryLaw
from legroom.questions.memory.allocator.reserve import Reserve
from legroom.questions.memory.records import TRACE_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """What a trace of a job on the CPU says about its memory on a CUDA device."""

    train: MemoryLaw
    """Peak bytes of a training step; its batch is the one of one forward pass."""
    evaluation: MemoryLaw | None
    """Peak bytes of an evaluation pass between two training steps; None where the job has neither loss nor score."""
    method: str
    """"fake": shapes only, nothing was computed; "real": a real step on the CPU."""
    reason: str
    """Why nothing better than `method` was possible; empty for "fake"."""
    batch_sizes: tuple[int, int]
    """The sizes traced."""
    notes: tuple[str, ...]
    """What a reader of the estimate should know, a sentence each."""
    seconds: float
    """What the estimate cost."""
    reserves: Mapping[Kind, Reserve] = field(default_factory=dict)
    """What torch's allocators need for steps and an evaluation that fit; empty where they could not be replayed. The
    default one is there where it needs less than segments that grow."""

    def largest_batch(self, budget_bytes: float) -> int:
        """The largest batch that trains within the budget, 0 if none."""
        return max(self._largest(budget_bytes).values(), default=self.train.largest_batch(budget_bytes))

    def allocator(self, budget_bytes: float) -> Kind:
        """The one that holds the largest batch; segments that grow where both hold as much."""
        largest = self._largest(budget_bytes)
        return max(largest, key=lambda kind: largest[kind], default="expandable")

    def needed_bytes(self, batch_size: int) -> int:
        """The budget that a batch of that size asks for."""
        held = self.train.peak(batch_size).num_bytes
        return max(held, min((round(reserve.at(batch_size)) for reserve in self.reserves.values()), default=held))

    def _largest(self, budget_bytes: float) -> dict[Kind, int]:
        law = self.train.largest_batch(budget_bytes)
        return {kind: min(law, reserve.largest_batch(budget_bytes)) for kind, reserve in self.reserves.items()}

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        laws = {"train": _law_record(self.train), "evaluation": self.evaluation and _law_record(self.evaluation)}
        rest = {"rules": TRACE_RULES, "method": self.method, "reason": self.reason, "seconds": round(self.seconds, 3)}
        rest["reserves"] = {kind: [list(point) for point in found.points] for kind, found in self.reserves.items()}
        return laws | rest | {"batch_sizes": list(self.batch_sizes), "notes": list(self.notes)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "MemoryEstimate":
        """The estimate that `as_record` wrote."""
        return cls(
            train=_read_law(record["train"]),
            evaluation=_read_law(record["evaluation"]) if record["evaluation"] else None,
            method=record["method"],
            reason=record["reason"],
            batch_sizes=(record["batch_sizes"][0], record["batch_sizes"][1]),
            notes=tuple(record["notes"]),
            seconds=record["seconds"],
            reserves={kind: _read_reserve(points) for kind, points in record["reserves"].items()},
        )


def _law_record(law: MemoryLaw) -> list[dict[str, Any]]:
    """Lines with only the categories that have bytes: a record is stored once for each estimate."""
    return [
        {
            "fixed_bytes": line.fixed_bytes,
            "bytes_per_sample": line.bytes_per_sample,
            "phase": line.phase,
            "parts": {name: list(part) for name, part in line.parts.items() if any(part)},
        }
        for line in law.lines
    ]


def _read_reserve(points: list[list[int]]) -> Reserve:
    return Reserve(tuple((size, needed) for size, needed in points))


def _read_law(record: list[dict[str, Any]]) -> MemoryLaw:
    return MemoryLaw(
        tuple(
            Line(**{**line, "parts": {name: (part[0], part[1]) for name, part in line["parts"].items()}})
            for line in record
        )
    )
