"""What a document is made of: text that stays, and text that is translated. No torch here."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class DocumentPart(Protocol):
    """A piece of the result."""

    def render(self, translations: Sequence[str]) -> str:
        """Return the text of this part, given the translations of all sentences."""


@dataclass(frozen=True)
class FixedText:
    """Text that stays as it is."""

    text: str

    def render(self, translations: Sequence[str]) -> str:
        return self.text


@dataclass(frozen=True)
class TranslatedText:
    """The translation of one sentence, as it is."""

    index: int

    def render(self, translations: Sequence[str]) -> str:
        return translations[self.index]


class SentenceList:
    """Sentences to translate, each once, whoever needs it how often."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def index(self, sentence: str) -> int:
        """Return the place of `sentence` in the list; add it if it is new."""
        return self._places.setdefault(sentence, len(self._places))

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self._places)


def joined(parts: Sequence[DocumentPart], translations: Sequence[str]) -> str:
    """Return all parts as one text; translations that meet are joined as by `side_by_side`."""
    written: list[str] = []
    meeting: list[str] = []
    for part in parts:
        text = part.render(translations)
        if isinstance(part, FixedText):
            written += [side_by_side(meeting), text]
            meeting = []
        else:
            meeting.append(text)
    return "".join([*written, side_by_side(meeting)])


def side_by_side(texts: Sequence[str]) -> str:
    """Join texts with a space where they meet, unless their script needs none."""
    written: list[str] = []
    for text in texts:
        if text and written:
            written.append(_between(written[-1][-1:], text[0]))
        if text:
            written.append(text)
    return "".join(written)


def has_words(text: str) -> bool:
    """Say whether there is anything to translate: at least one letter."""
    return any(character.isalpha() for character in text)


def is_wide(character: str) -> bool:
    """Say whether `character` belongs to a script without spaces, such as Chinese."""
    return unicodedata.east_asian_width(character) in "WF"


def _between(left: str, right: str) -> str:
    apart = left.isspace() or right.isspace() or is_wide(left) or is_wide(right)
    return "" if apart else " "
