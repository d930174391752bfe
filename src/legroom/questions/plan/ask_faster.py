"""Asks what makes the updates of the run that a plan will name faster: variants of the step, then the environment."""

from collections.abc import Callable
from typing import Any

from legroom.questions.plan.asking import Found, Search
from legroom.questions.plan.forecast import forecast_of
from legroom.questions.plan.trying import TRIED_SHARE
from legroom.questions.plan.way import Way, way_of_run
from legroom.questions.speed.ask import environment
from legroom.questions.variants.ask import LEAST_SECONDS, variants

SHARE, RUN_SHARE = 0.2, 0.5
"""Of the budget, and of the plan's run, that each may take."""
ENOUGH = {"variants": 15.0, "environment": 24.0}
"""How many seconds each may take however short the run: a process for each of six turns takes four."""
SHORTEST = 3.0
"""Seconds of a run, below which hardly anything is left to gain."""
NAMES = {
    "variants": "Whether bf16, channels-last, a fused optimizer or torch.compile pay",
    "environment": "Whether reused memory, sleeping threads or fewer of them pay",
}


def ask_faster(search: Search, likely: int, *, tried: bool = False) -> None:
    """Both, for what will be run: as chosen, or by the job's own settings where they stay.

    tried: what was chosen was tried out by now; where it stays, so does what was found.
    """
    found = forecast_of(search.question)
    is_chosen = found is not None and (found.is_better or (found.is_worth_trying and not tried))
    if tried and is_chosen:
        return
    way = way_of_run(search.question, found if is_chosen else None, likely)
    if way is None or way.settings.get("num_devices", 1) != 1:
        search.learn(variants=None, environment=None)
        return
    kept_back = 0.0 if tried else min(TRIED_SHARE * search.budget, 3 * way.seconds)
    _ask_variants(search, way, kept_back)
    if search.about.device == "cpu":
        _ask_environment(search, way, kept_back)


def _limit(search: Search, name: str, way: Way) -> int:
    """Seconds that a question may take; 0 where the run is too short for asking."""
    wanted = max(RUN_SHARE * way.seconds, ENOUGH[name])
    return 0 if way.seconds < SHORTEST else round(min(SHARE * search.budget, wanted))


def _ask_variants(search: Search, way: Way, kept_back: float) -> None:
    size = int(way.settings["batch_size"])
    last = search.question.variants
    if last is not None and last.batch_size == size:
        return
    known = search.known.variants(size)
    search.learn(variants=known)
    if known is not None:
        search.use("variants", [known])
    else:
        settings = {name: value for name, value in way.settings.items() if name not in ("precision", "seed")}
        limit = _limit(search, "variants", way)
        words = {"settings": settings, "num_steps": way.num_steps, "budget": float(limit)}
        search.learn(variants=_ask(search, "variants", variants, limit, kept_back, size, words))


def _ask_environment(search: Search, way: Way, kept_back: float) -> None:
    size, known = int(way.settings["batch_size"]), search.question.environment
    if known is None or known.batch_size != size:
        limit = _limit(search, "environment", way)
        words = {"batch_size": size, "budget": float(limit)}
        search.learn(environment=_ask(search, "environment", environment, limit, kept_back, size, words))


def _ask(
    search: Search,
    name: str,
    function: Callable[..., Found],
    limit: int,
    kept_back: float,
    size: int,
    words: dict[str, Any],
) -> Found | None:
    """The answer; None where the run is too short for asking, or the budget has no time for it, which is told."""
    # What was said of a batch that is not to be run any more goes.
    search.learn(missing=[sentence for sentence in search.question.missing if not sentence.startswith(NAMES[name])])
    if limit < LEAST_SECONDS:
        return None
    left = search.left() - kept_back
    if left >= limit:
        return search.ask(name, function, **words)
    told = f"the budget left {max(0.0, left):.0f} s for it, not {limit} s. Raise --budget"
    search.miss(f"{NAMES[name]} at batches of {size:,} was not asked: {told}")
    return None
