"""Numbers as people read them."""

import math


def percent(share: float) -> str:
    """Write a share of 1 as a percentage: "63 %", "4.2 %"."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"


def count(number: int, noun: str = "", plural: str = "") -> str:
    """Write a count with its noun: "1 update", "12,000 updates"."""
    if not noun:
        return f"{number:,}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listing(words: list[str]) -> str:
    """Join words for a sentence: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Round for the JSON report; what is not a number becomes null."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, digits)
