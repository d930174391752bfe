"""Which variants to run with by what is known, and what is to be measured before that can be said."""

from dataclasses import dataclass
from typing import Literal

from legroom.questions.variants.evidence import Evidence
from legroom.questions.variants.records import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The variants to run with, or what is lacking for that."""

    names: Names = ()
    """Empty: none of them, or not known yet."""
    lacks: Literal["time", "losses"] | None = None
    about: Names = ()
    """The variants that are to be timed or trained together; none where all is known."""


def choose(evidence: Evidence) -> Choice:
    """The variants with which a run is soonest and learns as without them.

    Each is timed alone, then those that pay together: gains do not multiply. The losses of what would be soonest are
    looked at first; where they leave the spread, those of each of its parts, and what spoils them goes. Compiling comes
    when all else is known, so that it cannot take the time of the others.
    """
    names = tuple(evidence.question.names)
    plain = _choose(evidence, tuple(name for name in names if name != "compile"))
    return plain if plain.lacks or "compile" not in names else _choose(evidence, names)


def _choose(evidence: Evidence, names: Names) -> Choice:
    """The choice among these."""
    untimed = next((name for name in names if _lacks_time(evidence, (name,))), None)
    if untimed is not None:
        return Choice(lacks="time", about=(untimed,))
    groups = _groups(evidence, names)
    untimed_group = next((group for group in groups if _lacks_time(evidence, group)), None)
    if untimed_group is not None:
        return Choice(lacks="time", about=untimed_group)
    for group in sorted((group for group in groups if evidence.pays(group)), key=lambda one: _cost(evidence, one)):
        checks = [group] if len(group) == 1 or evidence.stays(group) is not False else [(name,) for name in group]
        unknown = next((one for one in checks if evidence.stays(one) is None and not _is_skipped(evidence, one)), None)
        if unknown is not None:
            return Choice(lacks="losses", about=unknown)
        if evidence.stays(group):
            return Choice(names=group)
    return Choice()


def _groups(evidence: Evidence, among: Names) -> list[Names]:
    """Those that pay and do not spoil the losses: each alone, all but the compiler, and all."""
    names = tuple(name for name in among if evidence.pays((name,)) and evidence.stays((name,)) is not False)
    plain = tuple(name for name in names if name != "compile")
    return list(dict.fromkeys(group for group in (*((name,) for name in names), plain, names) if group))


def _lacks_time(evidence: Evidence, group: Names) -> bool:
    return evidence.is_open(group) and not _is_skipped(evidence, group)


def _is_skipped(evidence: Evidence, group: Names) -> bool:
    return " + ".join(group) in evidence.question.skipped


def _cost(evidence: Evidence, group: Names) -> float:
    """Seconds of the run; of one update where nobody knows how many it has."""
    timing = evidence.timing(group)
    assert timing is not None
    return timing.run_seconds(evidence.question.num_steps or 1)
