"""Whole texts: find what has to be translated, and put the translations in its place.

`plan_document` finds the sentences of a text or an HTML page; `Document.assemble` takes their
translations and returns the whole text. Whatever is not a sentence stays as it is, byte for
byte: line breaks, white space, list marks, numbers, tags. No torch here.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from unisono.text.document_parts import (
    DocumentPart,
    FixedText,
    SentenceList,
    TranslatedText,
    joined,
)
from unisono.text.html_document import html_parts
from unisono.text.long_sentences import sentence_spans

_LINE_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")


@dataclass(frozen=True)
class Document:
    """A text of which the `sentences` are to be translated, each of them once.

    With HTML, some sentences are only words between tags: their translations tell where the
    tags go.
    """

    sentences: tuple[str, ...]
    parts: tuple[DocumentPart, ...]

    def assemble(self, translations: Sequence[str]) -> str:
        """Return the whole text, given a translation for each of `sentences`, in order."""
        if len(translations) != len(self.sentences):
            raise ValueError(f"{len(translations)} translations, {len(self.sentences)} needed")
        return joined(self.parts, translations)


def plan_document(
    text: str, *, markup: bool, language: str, fits: Callable[[str], bool]
) -> Document:
    """Find the sentences of `text`, which is HTML if `markup`, in the `language` of this code.

    A sentence that does not fit the model is split at the best places, never cut off. No
    sentence contains a line break.
    """
    found = SentenceList()
    parts = html_parts(text, language, fits, found) if markup else ()
    if not markup:
        parts = tuple(_text_parts(text, language, fits, found))
    return Document(found.sentences, parts)


def _text_parts(
    text: str, language: str, fits: Callable[[str], bool], found: SentenceList
) -> Iterator[DocumentPart]:
    done = 0
    for start, end in _line_spans(text):
        for left, right in sentence_spans(text[start:end], language, fits):
            if start + left > done:
                yield FixedText(text[done : start + left])
            yield TranslatedText(found.index(text[start + left : start + right]))
            done = start + right
    if done < len(text):
        yield FixedText(text[done:])


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line_break in _LINE_BREAK.finditer(text):
        yield start, line_break.start()
        start = line_break.end()
    yield start, len(text)
