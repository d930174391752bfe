"""What every answer carries, whatever the question."""

from dataclasses import asdict, dataclass, field
from typing import Any

from legroom.plan import Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer with its circumstances. Each question adds its own fields."""

    job: str
    machine: str
    seconds: float
    """What asking cost."""
    notes: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)
    recommendations: list[Recommendation] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The answer as plain JSON values, with the names scripts rely on."""
        from legroom import __version__

        return {"legroom_version": __version__, **asdict(self)}
