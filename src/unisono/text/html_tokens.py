"""Cut HTML into tags, texts and what is neither, as spans of the original. No torch here.

The tokens cover the text without gaps, whatever it is: what a browser would call a mistake is
a token, too. The time is linear in the length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["text", "open", "close", "other"]

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"]
    + ["param", "source", "track", "wbr"]
)
# Elements whose content is no text of the page, and those whose content has no tags.
_RAW = frozenset(["script", "style", "xmp", "iframe", "noembed", "noframes"])
_WITHOUT_TAGS = frozenset(["textarea", "title"])

_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_ATTRIBUTE = re.compile(
    r"[\s/]*(?:([^\s/>][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]*)))?)?"
)


@dataclass(frozen=True)
class HtmlToken:
    """A span of the page; `translates` is what its attributes say, if they say anything."""

    kind: TokenKind
    start: int
    end: int
    name: str = ""
    translates: bool | None = None


def html_tokens(page: str) -> Iterator[HtmlToken]:
    """Yield the tokens of `page`, in order, without gaps."""
    place = 0
    while place < len(page):
        markup = _MARKUP.search(page, place)
        start = markup.start() if markup else len(page)
        if start > place:
            yield HtmlToken("text", place, start)
        place = start
        if markup:
            for token in _markup_at(page, start):
                yield token
                place = token.end


def _markup_at(page: str, start: int) -> Iterator[HtmlToken]:
    name = _NAME.match(page, start)
    if name is None:
        yield HtmlToken("other", start, _end_of_comment(page, start))
        return
    token = _tag(page, start, name)
    if token.kind != "open" or token.name not in _RAW | _WITHOUT_TAGS:
        yield token
        return
    closing = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(page, token.end)
    stop = closing.start() if closing else len(page)
    if token.name in _RAW:
        yield HtmlToken("other", start, _end_of_element(page, stop), token.name)
        return
    yield token
    if stop > token.end:
        yield HtmlToken("text", token.end, stop)


def _end_of_element(page: str, closing: int) -> int:
    name = _NAME.match(page, closing)
    return _tag(page, closing, name).end if name else len(page)


def _end_of_comment(page: str, start: int) -> int:
    """Return where a comment, a doctype, or something that poses as one ends."""
    ends = [
        (page.startswith(a, start), a, b) for a, b in (("<!--", "-->"), ("<![CDATA[", "]]>"))
    ]
    for is_this, opening, closing in ends:
        if is_this:
            # `<!-->` is a comment, too.
            end = page.find(
                closing, start + min(len(opening), 2) if closing == "-->" else start
            )
            return end + len(closing) if end >= 0 else len(page)
    end = page.find(">", start)
    return end + 1 if end >= 0 else len(page)


def _tag(page: str, start: int, name: re.Match[str]) -> HtmlToken:
    place, attributes = name.end(), dict[str, str]()
    while (found := _ATTRIBUTE.match(page, place)) and found.end() > place:
        place = found.end()
        if found.group(1):
            value = found.group(2) or found.group(3) or found.group(4) or ""
            attributes.setdefault(found.group(1).lower(), value)
    end = min(place + 1, len(page))
    lower = name.group(1).lower()
    if page[start + 1] == "/":
        return HtmlToken("close", start, end, lower)
    is_void = lower in VOID or page.endswith("/>", start, end) or page[end - 1] != ">"
    kind: TokenKind = "other" if is_void else "open"
    return HtmlToken(kind, start, end, lower, _translates(attributes))


def _translates(attributes: dict[str, str]) -> bool | None:
    if "notranslate" in attributes.get("class", "").split():
        return False
    said = attributes.get("translate")
    return None if said is None else {"no": False, "yes": True, "": True}.get(said.lower())
