"""Put the tags of a sentence around the right words of its translation. No torch here.

Nothing tells which word of a translation comes from which word of the sentence. So the words
between two tags are also translated by themselves: where that translation occurs in the
translation of the sentence, there the tags go. If it does not occur, they go where they would
be if both texts ran evenly. Tags stay nested as they were.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from unisono.text.document_parts import DocumentPart, joined

NodeKind = Literal["range", "point", "space", "verbatim"]

_WIDE = "\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\uff00-\uffef"
WORD = re.compile(rf"[{_WIDE}]|[^\s{_WIDE}]+")
_PUNCTUATION = ".,;:!?…\"'”“„’»«()[]。、，！？ "


@dataclass
class MarkupNode:
    """Markup in a sentence: tags around a range of it, or something at one point.

    `start` and `end` count words. `opening` or `closing`
    is empty if the tag is outside of the sentence. A `verbatim` range has to appear as
    `raw` in the translation, a `space` as `raw` between two words. `fragment` is the index of
    the words between the tags among all sentences; there is none if they are all fixed.
    """

    kind: NodeKind
    start: int
    end: int
    raw: str = ""
    text: str = ""
    opening: str = ""
    closing: str = ""
    open_left: bool = False
    open_right: bool = False
    is_fixed: bool = False
    fragment: int | None = None
    children: list["MarkupNode"] = field(default_factory=list)

    @property
    def is_point(self) -> bool:
        return self.kind in ("point", "space")


@dataclass(frozen=True)
class MarkedSentence:
    """A sentence with markup in it, `raw` in the page.

    If the translation is the sentence, the page stays as it is. If it lacks something that has
    to be in it, `instead` is used, which translates what is between.
    """

    index: int
    sentence: str
    raw: str
    root: MarkupNode
    spellings: dict[str, tuple[str, ...]]
    instead: tuple[DocumentPart, ...] = ()

    def render(self, translations: Sequence[str]) -> str:
        whole = translations[self.index]
        if whole == self.sentence:
            return self.raw
        writer = _Writer(whole, translations, self.spellings)
        places = writer.placed(self.root, 0, len(whole))
        if places is None:
            return joined(self.instead, translations)
        return writer.written(self.root, 0, len(whole), places)


Place = tuple[int, int]
Places = dict[int, Place]


class _Writer:
    """Places and writes the markup of one translation."""

    def __init__(
        self, whole: str, translations: Sequence[str], spellings: dict[str, tuple[str, ...]]
    ) -> None:
        self.whole, self.lower = whole, whole.lower()
        self.translations = translations
        self.spellings = {character: list(raw) for character, raw in spellings.items()}

    def placed(self, node: MarkupNode, low: int, high: int) -> Places | None:
        """Return the place of everything inside of `node`; None if something is missing."""
        ranges = [child for child in node.children if not child.is_point]
        even = self._evenly(node, ranges, low, high)
        places = self._exactly(ranges, even, low, high)
        if places is None and any(map(_has_verbatim, ranges)):
            return None
        places = dict(even) if places is None else places
        for child in node.children:
            if child.is_point:
                places[id(child)] = self._point(node, child, low, high, places)
        result = dict(places)
        for child in ranges:
            inner = self.placed(child, *places[id(child)])
            if inner is None:
                return None
            result |= inner
        return result

    def _exactly(
        self, ranges: list[MarkupNode], even: Places, low: int, high: int
    ) -> Places | None:
        """Return where the words of each range are found; None if that is impossible."""
        places = Places()
        for child in ranges:
            found = self._found(child, even[id(child)], low, high)
            if found is None and _has_verbatim(child):
                return None
            places[id(child)] = found or even[id(child)]
        return places if _disjoint(list(places.values())) else None

    def _words(self, low: int, high: int) -> list[Place]:
        return [match.span() for match in WORD.finditer(self.whole, low, high)]

    def _evenly(
        self, parent: MarkupNode, ranges: list[MarkupNode], low: int, high: int
    ) -> Places:
        words = self._words(low, high)
        places, free = Places(), 0
        for child in ranges:
            first = max(free, _share(parent, child.start, len(words)))
            free = min(len(words), max(first + 1, _share(parent, child.end, len(words))))
            first = min(first, free)
            left = words[first][0] if first < len(words) else high
            right = words[free - 1][1] if first < free else left
            if first < free and child.text[-1:] not in _PUNCTUATION:
                kept = len(self.whole[left:right].rstrip(_PUNCTUATION))
                right = left + kept if kept else right
            left = low if child.open_left else left
            places[id(child)] = (left, high if child.open_right else right)
        return places

    def _point(
        self, parent: MarkupNode, point: MarkupNode, low: int, high: int, places: Places
    ) -> Place:
        words = self._words(low, high)
        index = _share(parent, point.start, len(words))
        if point.kind == "space":
            index = max(1, index)
        place = words[index][0] if index < len(words) else high
        for left, right in places.values():
            if left < place < right:
                place = right
        return place, place

    def _found(self, child: MarkupNode, even: Place, low: int, high: int) -> Place | None:
        wanted = [child.text]
        if child.kind == "range" and child.fragment is not None:
            words = self.translations[child.fragment]
            wanted = [words, words.strip(_PUNCTUATION), *wanted]
        for text in wanted:
            if place := self._search(text, even, low, high, exact=child.kind == "verbatim"):
                left = low if child.open_left else place[0]
                return left, high if child.open_right else place[1]
        return None

    def _search(
        self, text: str, even: Place, low: int, high: int, *, exact: bool
    ) -> Place | None:
        """Return where `text` occurs between whole words, as near to `even` as possible."""
        within = self.whole if exact or len(self.lower) != len(self.whole) else self.lower
        wanted = text if within is self.whole else text.lower()
        places, start = list[int](), low
        while wanted and (place := within.find(wanted, start, high)) >= 0:
            if self._between_words(place, place + len(wanted)):
                places.append(place)
            start = place + 1
        if not places:
            return None
        nearest = min(places, key=lambda place: abs(place - even[0]))
        return nearest, nearest + len(wanted)

    def _between_words(self, start: int, end: int) -> bool:
        text = self.whole
        inside_left = start > 0 and _one_word(text[start - 1], text[start])
        return not inside_left and not (end < len(text) and _one_word(text[end - 1], text[end]))

    def written(self, node: MarkupNode, low: int, high: int, places: Places) -> str:
        """Return the translation from `low` to `high` with the markup inside of `node`."""
        order = sorted(
            enumerate(node.children), key=lambda pair: (places[id(pair[1])][0], pair[0])
        )
        parts, done = list[str](), low
        for _, child in order:
            left, right = places[id(child)]
            before = self.whole[done:left]
            before = before.removesuffix(" ") if child.kind == "space" else before
            parts.append(self._escaped(before))
            if child.is_point or child.kind == "verbatim":
                parts.append(child.raw)
            else:
                inner = self.written(child, left, right, places)
                parts.append(child.opening + inner + child.closing)
            done = max(done, right)
        return "".join([*parts, self._escaped(self.whole[done:high])])

    def _escaped(self, text: str) -> str:
        return "".join(self._spelled(character) for character in text)

    def _spelled(self, character: str) -> str:
        known = self.spellings.get(character)
        if known:
            return known.pop(0) if len(known) > 1 else known[0]
        return html.escape(character, quote=False) if character in "&<>" else character


def _one_word(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum() and not re.match(f"[{_WIDE}]", left + right)


def _has_verbatim(node: MarkupNode) -> bool:
    return node.kind == "verbatim" or any(map(_has_verbatim, node.children))


def _share(parent: MarkupNode, offset: int, words: int) -> int:
    length = max(1, parent.end - parent.start)
    return min(words, round((offset - parent.start) / length * words))


def _disjoint(places: list[Place]) -> bool:
    ordered = sorted(places)
    return all(a[1] <= b[0] for a, b in zip(ordered, ordered[1:], strict=False))
