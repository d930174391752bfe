"""Where the plateau begins, as far as the sizes tried can tell."""

import math
from dataclasses import dataclass

from legroom.laws.model_size import SizeLaw
from legroom.questions.size.records import SizeQuestion

TOLD_TO = 2.0
"""Times the largest size: whether twice the parameters save anything is a question about these, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """Parameters from which on twice as many save little; ends of the range beyond what was tried are open."""

    value: float | None
    """None where it is open."""
    low: float
    high: float | None
    """None: the trials do not bound it."""
    smallest: float
    """Size tried: a plateau there or below it is told as this."""

    @property
    def is_passed(self) -> bool:
        """Whether it begins at the smallest size or below."""
        return self.high == self.smallest


def find_plateau(law: SizeLaw, question: SizeQuestion) -> Plateau:
    """By the law through all trials, on the whole data, within the sizes tried and twice the largest."""
    smallest, most = min(question.num_parameters), TOLD_TO * max(question.num_parameters)
    low, high = law.plateau_range(question.num_samples)
    is_bounded = high <= most
    value = law.plateau(question.num_samples)
    return Plateau(
        value=_inside(value, smallest, most) if is_bounded else None,
        low=_inside(low, smallest, most),
        high=max(high, float(smallest)) if is_bounded else None,
        smallest=smallest,
    )


def _inside(value: float, low: float, high: float) -> float:
    return min(max(value, low), high) if math.isfinite(value) else high


def about(number: float) -> str:
    """A count to three digits, written out.

    >>> about(1666.7), about(12.0)
    ('1,670', '12')
    """
    return f"{float(f'{number:.3g}'):,.0f}"


def open_words(plateau: Plateau, vary: str) -> str | None:
    """Why nobody knows where it begins, and what would tell; None where it is told."""
    if plateau.value is not None:
        return None
    if plateau.low <= plateau.smallest:
        where, way = "at any of the sizes tried, or beyond them", "more --seeds or a longer --budget"
    else:
        where, way = f"at {about(plateau.low)} parameters or beyond", f"larger --{vary}s"
    return f"the plateau: by these trials it may begin {where}. It takes {way} to tell"
