"""Text from others on its way to a terminal."""


def printable(text: str) -> str:
    """Return `text` without what a terminal would obey rather than show."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
