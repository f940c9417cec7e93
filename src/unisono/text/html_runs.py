"""Find the running texts of an HTML page: text between tags that break it. No torch here.

`<b>` or `<a>` stand inside a sentence, `<p>` or `<td>` between sentences. A run is the text up
to the next tag of the second kind, with the places of the tags of the first kind.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from unisono.text.html_tokens import VOID, HtmlToken, html_tokens

INLINE = frozenset(
    ["a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data"]
    + ["del", "dfn", "em", "font", "i", "img", "ins", "kbd", "label", "mark"]
    + ["nobr", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup"]
    + ["time", "tt", "u", "var", "wbr"]
)
_UNTRANSLATED = frozenset(["code", "kbd", "samp", "var", "math", "svg"])
_PREFORMATTED = frozenset(["pre", "textarea"])
# A new element of the first kind ends an open one of the second kind without a tag.
_ENDS_ALSO = {
    **dict.fromkeys(
        ["p", "div", "ul", "ol", "dl", "table", "section", "h1", "h2", "h3", "h4"]
        + ["h5", "h6", "pre", "form"],
        ("p",),
    ),
    "li": ("p", "li"),
    "dt": ("p", "dt", "dd"),
    "dd": ("p", "dt", "dd"),
    "td": ("p", "td", "th"),
    "th": ("p", "td", "th"),
    "tr": ("p", "td", "th", "tr"),
    "option": ("option",),
}
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

MarkKind = Literal["open", "close", "point", "verbatim", "space"]


@dataclass
class InlineMark:
    """Markup in a run, before its character `offset`; `start` and `end` count in the page.

    `partner` is the other tag of the same element, if it is in the same run. A verbatim mark
    covers `length` characters of text.
    """

    kind: MarkKind
    offset: int
    start: int
    end: int
    length: int = 0
    partner: "InlineMark | None" = None


@dataclass
class TextRun:
    """Decoded text with the span of every character in the page, and the marks in it."""

    characters: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    is_masked: list[bool] = field(default_factory=list)
    marks: list[InlineMark] = field(default_factory=list)

    def add(self, text: str, start: int, end: int, *, masked: bool = False) -> None:
        """Add decoded text; a single character may have a longer span."""
        whole = end - start == len(text) and len(text) != 1
        for place, character in enumerate(text):
            self.characters.append(character)
            self.starts.append(start + place if whole else start)
            self.ends.append(start + place + 1 if whole else end)
            self.is_masked.append(masked)


@dataclass
class _Element:
    name: str
    translates: bool
    mark: InlineMark | None


class _RunBuilder:
    """Follows the tokens of a page, with a stack of the open elements."""

    def __init__(self, page: str) -> None:
        self.page, self.run = page, TextRun()
        self.stack: list[_Element] = []
        self.marked: list[_Element] = []  # opened since the run began, with a mark
        self.names: Counter[str] = Counter()

    @property
    def translates(self) -> bool:
        return self.stack[-1].translates if self.stack else True

    def breaks(self, token: HtmlToken) -> bool:
        """Say whether a run ends before `token`."""
        is_tag = token.kind in ("open", "close") or token.name in VOID
        return is_tag and token.name not in INLINE

    def take(self, token: HtmlToken) -> Iterator[TextRun]:
        """Add a token; yield the runs that are complete."""
        if token.kind == "text":
            yield from self._text(token.start, token.end)
            return
        if self.breaks(token):
            yield self.finish()
        mark = InlineMark("point", len(self.run.characters), token.start, token.end)
        if token.kind == "open":
            self._open(token, mark)
        elif token.kind == "close":
            self._close(token, mark)
        if not self.breaks(token):
            self.run.marks.append(mark)

    def finish(self) -> TextRun:
        """Return the run so far and begin another."""
        done, self.run = self.run, TextRun()
        for element in self.marked:  # not the whole stack: pages may nest without end
            element.mark = None
        self.marked.clear()
        return done

    def _open(self, token: HtmlToken, mark: InlineMark) -> None:
        for name in _ENDS_ALSO.get(token.name, ()):
            if self.stack and self.stack[-1].name == name:
                self._pop()
        translates = self.translates and token.name not in _UNTRANSLATED
        if token.translates is not None:
            translates = token.translates
        is_inline = token.name in INLINE
        if is_inline:
            mark.kind = "open"
        element = _Element(token.name, translates, mark if is_inline else None)
        self.stack.append(element)
        if is_inline:
            self.marked.append(element)
        self.names[token.name] += 1

    def _close(self, token: HtmlToken, mark: InlineMark) -> None:
        if not self.names[token.name]:
            return  # it closes nothing: it stays where it is
        while self.stack:
            element = self._pop()
            if element.name == token.name:
                if token.name in INLINE:
                    mark.kind, mark.partner = "close", element.mark
                if element.mark:
                    element.mark.partner = mark
                return
            if element.mark:
                element.mark.kind = "point"  # closed by another tag: not well nested

    def _pop(self) -> _Element:
        element = self.stack.pop()
        self.names[element.name] -= 1
        return element

    def _text(self, start: int, end: int) -> Iterator[TextRun]:
        keeps_lines = any(self.names[name] for name in _PREFORMATTED)
        while keeps_lines and (line := self.page.find("\n", start, end)) >= 0:
            self._line(start, line)
            yield self.finish()
            start = line + 1
        self._line(start, end)

    def _line(self, start: int, end: int) -> None:
        if start < end and not self.translates:
            text = html.unescape(self.page[start:end])
            offset = len(self.run.characters)
            self.run.marks.append(InlineMark("verbatim", offset, start, end, length=len(text)))
            self._masked(text, start, end)
            return
        for entity in _ENTITY.finditer(self.page, start, end):
            self.run.add(self.page[start : entity.start()], start, entity.start())
            self._entity(entity)
            start = entity.end()
        self.run.add(self.page[start:end], start, end)

    def _masked(self, text: str, start: int, end: int) -> None:
        for character in text:
            self.run.add(character, start, end, masked=True)

    def _entity(self, entity: re.Match[str]) -> None:
        text = html.unescape(entity.group())
        start, end = entity.span()
        offset = len(self.run.characters)
        if text == "\u00a0":
            self.run.marks.append(InlineMark("space", offset, start, end, length=1))
        elif text == "&" or (len(text) == 1 and unicodedata.category(text)[0] == "S"):
            self.run.marks.append(InlineMark("verbatim", offset, start, end, length=1))
        elif text in ("", entity.group()):
            self.run.marks.append(InlineMark("point", offset, start, end))
            return
        for character in text:
            self.run.add(character, start, end)


def text_runs(page: str) -> Iterator[TextRun]:
    """Yield the runs of `page`, in order; some are empty."""
    builder = _RunBuilder(page)
    for token in html_tokens(page):
        yield from builder.take(token)
    yield builder.finish()
