"""Lightning's own classes, from whichever of its two packages the user imported; imported late, if at all."""

import importlib
import importlib.util
import sys
from typing import Any

from legroom.errors import JobRaised, UsageError

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def need_lightning() -> None:
    """Refuse where neither package is installed."""
    if not any(importlib.util.find_spec(name.partition(".")[0]) for name in PACKAGES):
        raise UsageError(
            "Lightning is not installed: neither 'lightning' nor 'pytorch_lightning' can be imported. "
            "Install it with: pip install lightning"
        )


def trainer_class() -> Any:
    """The Trainer of the package that the user imported; of the one that is installed where that is not known yet."""
    for package in (*(name for name in PACKAGES if name in sys.modules), *PACKAGES):
        if importlib.util.find_spec(package.partition(".")[0]):
            return importlib.import_module(package).Trainer
    raise AssertionError("need_lightning was asked first")


def base_of(instance: Any, name: str, *kinds: str) -> type:
    """The class of that kind behind the instance; `name` is the call that returned it."""
    for package in PACKAGES:
        for kind in kinds:
            found = getattr(sys.modules.get(package), kind, None)
            if found is not None and isinstance(instance, found):
                return found  # type: ignore[no-any-return]
    raise JobRaised(
        f"{name} returned a {type(instance).__name__}; legroom needs a {' or a '.join(kinds)}. "
        "Pass the class, or a function that returns a new one"
    )


def overrides(instance: Any, hook: str, base: type) -> bool:
    """Whether the instance has a method of its own in place of Lightning's."""
    from lightning_utilities.core.overrides import is_overridden

    return is_overridden(hook, instance, base)


def silent_logger(base: type) -> Any:
    """The logger Lightning uses for trial runs: it takes any call and keeps nothing."""
    package = next(name for name in PACKAGES if base.__module__.startswith(f"{name}."))
    return sys.modules[package].loggers.logger.DummyLogger()
