"""Text from others on its way to a terminal."""

INSTEAD = "\N{REPLACEMENT CHARACTER}"
# Invisible, harmless, and common in Persian and in scripts of India.
JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def printable(text: str) -> str:
    """Return `text` without what a terminal would obey rather than show."""
    return "".join(letter if _is_shown(letter) else INSTEAD for letter in text)


def _is_shown(letter: str) -> bool:
    return letter.isprintable() or letter in JOINERS
