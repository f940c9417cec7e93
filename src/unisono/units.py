"""Read amounts with units from settings, and format them for people."""

import re
from collections.abc import Mapping

from unisono.errors import ConfigError

SECONDS_PER_UNIT = {
    **dict.fromkeys(["s", "sec", "second", "seconds"], 1.0),
    **dict.fromkeys(["min", "minute", "minutes"], 60.0),
    **dict.fromkeys(["h", "hour", "hours"], 3600.0),
    **dict.fromkeys(["d", "day", "days"], 86400.0),
}
BIT_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")


def seconds_of(text: str, *, where: str = "") -> float:
    """Parse a length of time such as "90 s", "3 min" or "1.5 h"."""
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2].lower() not in SECONDS_PER_UNIT:
        raise ConfigError(
            f'"{text}" is not a length of time',
            where=where,
            fix='write it like "90 s" or "3 min"',
        )
    return float(match[1]) * SECONDS_PER_UNIT[match[2].lower()]


def amount(text: str, units: Mapping[str, float], where: str, examples: str) -> float:
    """Parse a number above 0 with one of `units`."""
    match = _AMOUNT.fullmatch(text.lower())
    if match is None or match[2] not in units or float(match[1]) == 0:
        known = ", ".join(units)
        raise ConfigError(
            f'"{text}" cannot be read as a number above 0 with a unit',
            where=where,
            fix=f"write it like {examples}; units: {known}",
        )
    return float(match[1]) * units[match[2]]


def duration(seconds: float) -> str:
    """Format a length of time: "4.2 s", "3 min 05 s", "2 h 10 min"."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def amount_of_bytes(count: float) -> str:
    """Format a number of bytes in decimal units: "365 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or abs(count) >= 100 else f"{count:.1f} {unit}"
