"""Checks the words of `train`: which there are, and what each must be."""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from legroom.errors import UsageError
from legroom.job import Settings
from legroom.training.records import Train

NOT_WORDS = {"kind", "fresh", "settings", "target", "folder", "resume", "identity", "device", "variables"}
"""Fields of a Train that are made of other words."""
RUN_WORDS = ("out", "resume", "timeout", "progress", "engine", "together")


def check_train_words(settings: Mapping[str, Any], words: Mapping[str, Any]) -> None:
    """Refuse settings that there are not, and lengths that make no sense."""
    known = [field.name for field in fields(Settings)]
    others = [field.name for field in fields(Train) if field.name not in NOT_WORDS]
    for name in settings:
        if name in RUN_WORDS:
            raise UsageError(f"train has no word {name!r} of its own. Write run=legroom.api.Run({name}=...)")
        if name not in known:
            close = difflib.get_close_matches(name, [*known, *others, "job", "options", "plan", "run"])
            raise UsageError(
                f"train has no word {name!r}. Close to it: {', '.join(close) or 'none'}. "
                f"Settings are {', '.join(known)}; others: {', '.join(others)}"
            )
    for name in ("num_steps", "evaluate_steps", "patience", "checkpoint_steps"):
        if words[name] is not None and (type(words[name]) is not int or words[name] < 1):
            raise UsageError(f"{name} is {words[name]!r}; it must be a whole number of at least 1")
    for name, least in (("max_seconds", 0.1), ("tolerance", 0.0), ("checkpoint_seconds", 0.0)):
        if words[name] is not None and not (isinstance(words[name], int | float) and words[name] >= least):
            raise UsageError(f"{name} is {words[name]!r}; it must be a number of at least {least:g}")
    if words["watch"] not in ("loss", "score"):
        raise UsageError(f"watch is {words['watch']!r}; it must be 'loss' or 'score'")
