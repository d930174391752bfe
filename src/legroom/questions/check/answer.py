"""The answer of `legroom check`, with the names scripts rely on."""

from dataclasses import dataclass

from legroom.questions.base import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer(Answer):
    """Whether a plan still holds, and what has changed since."""

    device: str
    plan_path: str
    batch_size: int
    holds: bool
    fits: bool
    """Whether its batch was proved to fit now."""
    peak_bytes: int
    budget_bytes: int
    step_seconds: float | None
    """Of a pass at its batch now; None where none could be timed."""
    step_range: tuple[float, float] | None
    """Between which another look would find it."""
    expected_seconds: float | None
    """By what was timed for the plan; None where nothing was."""
    expected_range: tuple[float, float] | None
    disturbed: bool = False
    """Whether a step takes longer than it did while other programs use the machine, so that nobody can tell why."""
    differences: list[str]
    """What is not as it was when the plan was made."""

    @property
    def exit_code(self) -> int:
        """1 where the plan holds no longer, so that a script notices."""
        return 0 if self.holds else 1
