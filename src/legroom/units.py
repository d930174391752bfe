"""Units live here alone: everywhere else numbers are bytes and seconds."""

import re

from legroom.errors import UsageError

_SIZES = {"": 1, "b": 1}
_SIZES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}
_SIZES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}


def parse_bytes(text: str) -> int:
    """The number of bytes a person means.

    >>> parse_bytes("16GiB"), parse_bytes("1.5 GB"), parse_bytes("4096")
    (17179869184, 1500000000, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].lower() not in _SIZES:
        raise UsageError(f"{text!r} is no size. Write a number and one of B, KB, KiB, MB, MiB, GB, GiB, TB, TiB: 16GiB")
    return int(float(match[1]) * _SIZES[match[2].lower()])


_TIMES = {"": 1.0, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str) -> float:
    """The seconds a person means.

    >>> parse_seconds("2min"), parse_seconds("1.5 h"), parse_seconds("90")
    (120.0, 5400.0, 90.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].lower() not in _TIMES:
        raise UsageError(f"{text!r} is no time. Write a number and one of s, min, h: 2min")
    return float(match[1]) * _TIMES[match[2].lower()]


def parse_price(text: str) -> float:
    """The price of an hour that a person means.

    >>> parse_price("2.5/h"), parse_price("$0.7/h"), parse_price("3")
    (2.5, 0.7, 3.0)
    """
    match = re.fullmatch(r"\s*[^\d\s.-]?\s*(\d+(?:\.\d+)?)\s*(?:/\s*h)?\s*", text)
    if not match:
        raise UsageError(f"{text!r} is no price of an hour. Write a number such as 2.5/h")
    return float(match[1])


def format_bytes(num_bytes: float, most_digits: int = 1) -> str:
    """Bytes as a person reads them, in powers of 1024, with one digit after the point or more where they say more.

    >>> format_bytes(17179869184), format_bytes(1536), format_bytes(12), format_bytes(17190606602, most_digits=3)
    ('16.0 GiB', '1.5 KiB', '12 B', '16.01 GiB')
    """
    for unit, size in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if abs(num_bytes) >= size:
            whole, _, digits = f"{num_bytes / size:,.{most_digits}f}".partition(".")
            return f"{whole}.{digits.rstrip('0') or '0'} {unit}"
    return f"{num_bytes:.0f} B"


def exact_bytes(num_bytes: int) -> str:
    """Bytes as `format_bytes` writes them where that loses none, else their number: different sizes read differently.

    >>> exact_bytes(17179869184), exact_bytes(17190606602)
    ('16.0 GiB', '17190606602 B')
    """
    text = format_bytes(num_bytes)
    return text if parse_bytes(text.replace(",", "")) == num_bytes else f"{num_bytes} B"


def format_share(part_bytes: float, whole_bytes: float) -> str:
    """A part of some bytes, both in the whole's unit.

    >>> format_share(1049514803, 1073741824)
    '0.98 of 1.00 GiB'
    """
    number, unit = format_bytes(whole_bytes).split()
    scale = float(number.replace(",", "")) / whole_bytes if whole_bytes else 0.0
    return f"{part_bytes * scale:,.2f} of {whole_bytes * scale:,.2f} {unit}"


def format_seconds(seconds: float) -> str:
    """Seconds as a person reads them; what rounds to a whole larger unit is written in that.

    >>> format_seconds(0.0312), format_seconds(4.2), format_seconds(95), format_seconds(7320)
    ('31 ms', '4.2 s', '1 min 35 s', '2 h 2 min')
    >>> format_seconds(0.9996), format_seconds(59.97), format_seconds(3599.6), format_seconds(7199)
    ('1.0 s', '1 min 0 s', '1 h 0 min', '2 h 0 min')
    """
    if round(seconds * 1000) < 1000:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return f"{round(seconds) // 60} min {round(seconds) % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"
