"""Words of `legroom machine`."""

from typing import Any

from legroom.cli import options

SHARED = options.OF_MACHINES


def words() -> dict[str, Any]:
    """What does this machine have, and how fast is it?"""
    return {}
