"""Text as it leaves legroom: it cannot command a terminal, and its JSON holds no number that JSON has no word for."""

import json
import math
import re
from typing import Any

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What terminals obey, line breaks and tabs aside: C0, C1, and what turns the direction of writing."""


def printable(text: str) -> str:
    r"""The text without what a terminal would obey; bytes of a file name that are no text become question marks.

    >>> printable("a\x1b[31mred\x07\udcff.py")
    'a[31mred?.py'
    """
    return _COMMANDS.sub("", text).encode(errors="replace").decode()


def json_text(value: Any) -> str:
    """One line of JSON.

    >>> json_text({"loss": float("nan"), "range": (1, float("inf"))})
    '{"loss": null, "range": [1, null]}'
    """
    return json.dumps(finite(value), allow_nan=False)


def finite(value: Any) -> Any:
    """The same value with None for numbers that JSON has no word for."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {name: finite(part) for name, part in value.items()}
        case list() | tuple():
            return [finite(part) for part in value]
    return value
