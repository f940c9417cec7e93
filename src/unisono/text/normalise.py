"""One way to write each line, so that equal sentences are equal strings.

Invisible characters are removed by name rather than by category: the category of format
characters (Cf) also holds the joiners that Persian and Hindi are spelled with, the visible
number signs of Arabic and the tags of which some flags are made. Those stay.
"""

import re
import unicodedata
from collections.abc import Sequence

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters that are no white space
    "\u00ad"  # soft hyphen
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u180e\u200b\u2060-\u2065\u206a-\u206f"  # of no width
    "\ufeff\ufff9-\ufffb"  # byte order mark, annotations
    "]"
)
# SentencePiece writes a space as this block and could not tell the two apart again.
_SPACE_MARK = "\u2581"


def normalise(line: str) -> str:
    """Return `line` in NFC, without control characters, with single spaces between words.

    Any run of Unicode white space, line breaks included, becomes one space.
    """
    return " ".join(_plain(line).split())


def normalise_lines(lines: Sequence[str]) -> list[str]:
    """Return every line normalised; the lines hold no line feed. Faster than one by one."""
    if not lines:
        return []
    return [" ".join(line.split()) for line in _plain("\n".join(lines)).split("\n")]


def _plain(text: str) -> str:
    # Removed first: what a removed character kept apart may compose.
    visible = _INVISIBLE.sub("", text).replace(_SPACE_MARK, "_")
    return visible if visible.isascii() else unicodedata.normalize("NFC", visible)
