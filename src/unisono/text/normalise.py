"""Normalise lines, so that equal sentences are equal strings; and find the tags before them.

Invisible characters are removed one by one rather than by category: the category of format
characters (Cf) also contains the joiners of Persian and Hindi spelling, the visible number
signs of Arabic and the characters that make up some flags. Those stay.

Tags are symbols in front of a source line that tell the model what kind of line it is: `<BT>`
may mark back-translated text, `<2de>` a line to translate into German. A tag is one piece, and
a line may begin with several. What looks like a tag anywhere else, or in the target language,
is ordinary text.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unisono.text.tokenizer import Tokenizer

INVISIBLE = (
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # control characters other than white space
    "\u00ad"  # soft hyphen
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # writing direction
    "\u180e\u200b\u2060-\u2065\u206a-\u206f"  # zero width
    "\ufeff\ufff9-\ufffb"  # byte order mark, annotations
    "]"
)
_INVISIBLE = re.compile(INVISIBLE)
# SentencePiece writes a space as this block, and could not tell the two apart.
_SPACE_MARK = "\u2581"

OTHER_SPACES = (
    "\t\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

QUOTES = {
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb",  # “ ” „ ‟ « »
    "'": "\u2018\u2019\u201a\u201b\u2039\u203a",  # ‘ ’ ‚ ‛ ‹ ›
}


@dataclass(frozen=True)
class Normalisation:
    """Convert each line to NFC, without control characters, with single spaces between words.

    Any run of Unicode white space becomes one space. `plain_quotes` replaces “ ” „ ‟ « » by "
    and ‘ ’ ‚ ‛ ‹ › by ', the apostrophe ’ included; primes and accents stay.
    """

    plain_quotes: bool = False
    lowercase: bool = False

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Return every line normalised; the lines contain no line feed."""
        if not lines:
            return []
        # As one text: a few passes over all lines are faster than many over each.
        text = _plain(self._changed("\n".join(lines)))
        return _single_spaces(text).split("\n")

    def _changed(self, text: str) -> str:
        if self.plain_quotes and not text.isascii():
            for plain, quotes in QUOTES.items():
                for quote in quotes:
                    text = text.replace(quote, plain)
        # Before NFC: some letters compose in lower case only.
        return text.lower() if self.lowercase else text


def _plain(text: str) -> str:
    # Remove first: two characters that a removed one separated may compose.
    visible = _INVISIBLE.sub("", text).replace(_SPACE_MARK, "_")
    return visible if visible.isascii() else unicodedata.normalize("NFC", visible)


def _single_spaces(text: str) -> str:
    """Apply `" ".join(line.split())` to every line, in a few passes over all of them."""
    for space in OTHER_SPACES:
        text = text.replace(space, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


MAX_TAG_CHARACTERS = 64
_SPECIAL = re.compile(r"</?s>|<unk>|<pad>|<0x[0-9A-Fa-f]{2}>")


def tag_fault(tag: str) -> str:
    """Say why `tag` is not a valid tag, or "" if it is."""
    if not tag or len(tag) > MAX_TAG_CHARACTERS:
        return f"it has {len(tag)} characters; 1 to {MAX_TAG_CHARACTERS} are possible"
    if any(character.isspace() or character in ",\u2581" for character in tag):
        return "it has a space, a comma or U+2581 in it"
    if tag[0].isalnum() or tag[-1].isalnum():
        return "it begins or ends with a letter or digit, and could be mistaken for a word"
    return "SentencePiece uses it itself" if _SPECIAL.fullmatch(tag) else ""


def cut_tags(line: str, tags: Mapping[str, int]) -> tuple[list[int], str]:
    """Return the ids of the tags at the start of a normalised line, and the text after them."""
    ids: list[int] = []
    while tag := max((tag for tag in tags if line.startswith(tag)), key=len, default=""):
        ids.append(tags[tag])
        line = line[len(tag) :].removeprefix(" ")
    return ids, line


def cut_all(lines: Sequence[str], tags: Mapping[str, int]) -> tuple[list[list[int]], list[str]]:
    """Return for each line the ids of the tags at its start, and the text after them."""
    starts = tuple(tags)
    cut = [cut_tags(s, tags) if starts and s.startswith(starts) else ([], s) for s in lines]
    return [ids for ids, _ in cut], [text for _, text in cut]


def encode_source(tokenizer: Tokenizer, lines: Sequence[str], tag: str = "") -> list[list[int]]:
    """Return the ids of source lines; each tag they begin with is one piece.

    If a `tag` is given, it comes first.
    """
    ids, texts = cut_all(lines, tokenizer.tags)
    first = [tokenizer.tags[tag]] if tag else []
    encoded = tokenizer.encode(texts)
    return [[*first, *tags, *text] for tags, text in zip(ids, encoded, strict=True)]
