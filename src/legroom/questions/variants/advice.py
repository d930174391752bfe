"""Which variants to run with, and why not the others, from the records."""

from typing import Any

from legroom.logbook import Records
from legroom.questions.base import Recommendation
from legroom.questions.variants.answer import VariantsAnswer
from legroom.questions.variants.choice import choose
from legroom.questions.variants.evidence import LEAST_GAIN, MORE_MEMORY, Evidence, Timing, read_evidence
from legroom.questions.variants.records import Names, VariantsQuestion, changes_of
from legroom.reports.numbers import quantity


def advise(records: Records, question: VariantsQuestion) -> VariantsAnswer:
    """The variants that pay together, with a row for each that was tried or could not be."""
    evidence = read_evidence(records.entries, question)
    chosen = choose(evidence).names
    timing = evidence.timing(chosen) if chosen else None
    groups = [*((name,) for name in question.names), *(names for names in evidence.timed if len(names) > 1)]
    points = [_point(evidence, names, chosen) for names in groups]
    return VariantsAnswer(
        job=records.head.job,
        machine=records.head.machine,
        seconds=records.seconds(),
        notes=[*records.notes, *_notes(evidence, chosen), *records.description().notes],
        recommendations=_recommend(points, chosen, timing),
        device=question.device,
        batch_size=int(question.settings["batch_size"]),
        num_steps=question.num_steps,
        chosen=list(chosen),
        speedup=timing.ratio if timing else 1.0,
        speedup_range=timing.range if timing else (1.0, 1.0),
        own_step_seconds=evidence.step_seconds,
        start_seconds=timing.start_seconds if timing else 0.0,
        points=points,
        curves={
            " + ".join(names) or "own": [list(losses) for losses in by_seed.values()]
            for names, by_seed in evidence.losses.items()
        },
        baseline=dict(question.settings),
        settings={**question.settings, **changes_of(chosen)},
    )


def _recommend(points: list[dict[str, Any]], chosen: Names, timing: Timing | None) -> list[Recommendation]:
    """One for each setting that is to change; the gain is that of all together."""
    if timing is None:
        return []
    point = next(point for point in points if tuple(point["variants"]) == chosen)
    alone = {point["name"]: point for point in points}
    found = []
    for name in chosen:
        own = f", {alone[name]['ratio']:.2f} by this alone" if len(chosen) > 1 else ""
        for setting, value in changes_of((name,)).items():
            because = f"an update is {_fast(timing)} times as fast{own}; {point['because']}"
            evidence = ["variant_timed", "variant_losses"]
            found.append(Recommendation(name=setting, value=value, range=None, because=because, evidence=evidence))
    return found


def _fast(timing: Timing) -> str:
    """The factor with its range."""
    low, high = timing.range
    return f"{timing.ratio:.2f} ({low:.2f} to {high:.2f})"


def _notes(evidence: Evidence, chosen: Names) -> list[str]:
    found = []
    if len(chosen) > 1:
        found.append(f"{', '.join(chosen)} were timed and trained together: what each gives alone does not multiply")
    if evidence.losses.get(()):
        length = max(len(losses) for losses in evidence.losses[()].values())
        found.append(
            f"Losses were compared over the first {length} updates; what shows later, a longer training tells "
            "(legroom prove)"
        )
    return found


def _point(evidence: Evidence, names: Names, chosen: Names) -> dict[str, Any]:
    timing, parts = evidence.timing(names), evidence.parts(names)
    verdict, because = _verdict(evidence, names)
    worst = max(parts, key=lambda part: part.variant - part.limit) if parts else None
    return {
        "name": " + ".join(names),
        "variants": list(names),
        "verdict": verdict,
        "chosen": names == chosen,
        "ratio": timing.ratio if timing else None,
        "range": timing.range if timing else None,
        "own_seconds": timing.own_seconds if timing else None,
        "step_seconds": timing.step_seconds if timing else None,
        "start_seconds": timing.start_seconds if timing else None,
        "pays_after_steps": timing.pays_after if timing and timing.start_seconds and timing.ratio > 1 else None,
        "memory_ratio": timing.memory_ratio if timing else None,
        "losses": {"variant": worst.variant, "own": list(worst.own), "limit": worst.limit} if worst else None,
        "because": because,
    }


def _verdict(evidence: Evidence, names: Names) -> tuple[str, str]:
    """In a word, and why in a clause."""
    timing, name = evidence.timing(names), " + ".join(names)
    if timing is None:
        looks = evidence.timed.get(names)
        if not looks:
            return "not tried", evidence.question.skipped.get(name, "nothing needed it")
        return ("impossible" if looks[-1].outcome == "impossible" else "failed"), looks[-1].why
    if timing.memory_ratio > MORE_MEMORY:
        return "more memory", f"{timing.memory_ratio:.2f} times the memory of a step, which nothing proved to fit"
    if not timing.is_faster:
        return "no gain", f"not surely faster by {LEAST_GAIN - 1:.0%}"
    if not evidence.pays(names):
        return "no gain", _start(evidence, timing)
    verdict, because = _by_losses(evidence, names)
    return verdict, f"{_start(evidence, timing)}; {because}" if timing.start_seconds else because


def _start(evidence: Evidence, timing: Timing) -> str:
    run = evidence.question.num_steps
    once = f"{quantity(timing.start_seconds, 'seconds')} of compiling, paid back after {timing.pays_after:,.0f} updates"
    return f"{once}; " + (f"the run has {run:,}" if run else "the length of the run is unknown, name it with --steps")


def _by_losses(evidence: Evidence, names: Names) -> tuple[str, str]:
    parts = evidence.parts(names)
    if parts is None:
        skipped = evidence.question.skipped.get(" + ".join(names))
        return "unchecked", "its losses were not looked at" + (f": {skipped}" if skipped else " alone")
    worst = max(parts, key=lambda part: part.variant - part.limit)
    low, high = worst.own
    spread = f"{low:.4g} to {high:.4g}"
    if worst.leaves:
        return "spoils", f"a mean loss of {worst.variant:.4g}, where seeds without it give {spread}"
    return "pays", f"a mean loss of {worst.variant:.4g}, within the {spread} that seeds give without it"
