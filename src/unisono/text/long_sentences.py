"""Split a sentence that is too long for a model at the best places. No torch here."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

from unisono.text.document_parts import has_words
from unisono.text.sentence_split import split_sentences

# What a clause may end with: white space follows, except in scripts that have none.
_CLAUSE = re.compile(r"[,;:)\]»”،؛·–—][\"'”’»)\]]*(?=\s)|\s(?=[–—(\[«„“])|[，、；：）」』]")
_SPACE = re.compile(r"\s+")
_LIST_MARK = re.compile(r"\s*(?:[-*+•·>#=~–—|]+|\(?\d{1,3}[.)])(?=\s)")
_LONGEST_SEARCH = 1000
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"


def split_to_fit(
    text: str, fits: Callable[[str], bool], language: str = ""
) -> list[tuple[int, int]]:
    """Return spans of `text` that all fit, in order; together they have all but white space.

    A text that fits is one span. Otherwise it is split between sentences, else between clauses,
    else at a space, else anywhere, each time near the middle (or the thirds). A single
    character is never split, even if it does not fit.
    """
    if fits(text.strip()):
        ends = set[int]()
    else:
        ends = {end for _, end in split_sentences(text, language)}
    return list(_parts(text, 0, len(text), fits, ends))


def sentence_spans(
    line: str, language: str, fits: Callable[[str], bool]
) -> Iterator[tuple[int, int]]:
    """Yield the spans of a line that have to be translated, all of which fit."""
    mark = _LIST_MARK.match(line)
    first = mark.end() if mark else 0
    for start, end in split_sentences(line[first:], language):
        sentence = line[first + start : first + end]
        if has_words(sentence):
            for left, right in split_to_fit(sentence, fits, language):
                yield first + start + left, first + start + right


def _parts(
    text: str, start: int, end: int, fits: Callable[[str], bool], ends: set[int]
) -> Iterator[tuple[int, int]]:
    start, end = _stripped(text, start, end)
    if start == end:
        return
    if fits(text[start:end]) or not _cuts(text, start, end, 2, ends):
        yield start, end
        return
    cuts: list[int] = []
    for count in (2, 3):
        cuts = _cuts(text, start, end, count, ends)
        if all(fits(text[a:b].strip()) for a, b in pairwise([start, *cuts, end])):
            break
    else:
        cuts = _cuts(text, start, end, 2, ends)
    for a, b in pairwise([start, *cuts, end]):
        yield from _parts(text, a, b, fits, ends)


def _cuts(text: str, start: int, end: int, count: int, ends: set[int]) -> list[int]:
    """Return up to `count` - 1 places between `start` and `end`, the best near equal shares."""
    share = (end - start) / count
    cuts: list[int] = []
    for number in range(1, count):
        ideal = int(start + number * share)
        reach = int(min(share / 2, _LONGEST_SEARCH))
        low, high = ideal - reach, ideal + reach
        low = max(low, start, cuts[-1] if cuts else start)
        place = _best_place(text, low, min(high, end), ideal, ends)
        if start < place < end and place not in cuts:
            cuts.append(place)
    return cuts


def _best_place(text: str, low: int, high: int, ideal: int, ends: set[int]) -> int:
    sentences = [place for place in range(low + 1, high) if place in ends]
    clauses = [match.end() for match in _CLAUSE.finditer(text, low, high)]
    spaces = [match.end() for match in _SPACE.finditer(text, low, high)]
    for places in (sentences, clauses, spaces):
        inside = [place for place in places if low < place < high]
        if inside:
            return min(inside, key=lambda place: abs(place - ideal))
    return _before_a_character(text, ideal)


def _before_a_character(text: str, place: int) -> int:
    """Move `place` on while it would part an accent or a joiner from its letter."""
    while place < len(text) and (
        unicodedata.combining(text[place])
        or text[place] in _JOINERS
        or text[place - 1] == "\u200d"
    ):
        place += 1
    return place


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    left = len(inner) - len(inner.lstrip())
    return start + left, start + max(left, len(inner.rstrip()))
