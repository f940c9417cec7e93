"""Find the sentences of a text, in many scripts, without a model. No torch here.

A sentence ends at its full stop, question or exclamation mark, or ellipsis, with the quotes and
brackets that close after it. In scripts with capitals white space has to follow, and then no
small letter. A full stop may also belong to an abbreviation, initials or an ordinal. The lists
in `abbreviations/` say more about a language:

* `goes_on`: after it the sentence goes on, whatever follows ("Dr. Smith").
* `before_number`: the same if a number follows ("No. 5", but "He said no. Then he left").
* `may_end`: the sentence ends there only if one of the words of `starts` follows, or, in
  languages that write nouns small, any capital ("apples etc. We left").
* `ordinals`: "3." is the third. It does not end a sentence after one of `before_ordinal` or
  before one of `after_ordinal` ("am 3. Mai").
* `capital_nouns` and `semicolon_asks`: German writes nouns with a capital, Greek asks with ";".
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

_LISTS = Path(__file__).parent / "abbreviations"
_CLOSERS = "\"'”’“‘»«›‹)\\]}」』）】〉》〕］｝＂"
# Marks that always end a sentence: CJK, Devanagari, Urdu, Arabic, Armenian, Ethiopic, Khmer,
# Burmese, Tibetan.
_FULL_STOPS = "。！？｡।॥۔؟։።፧។။༎"
_AFTER = rf"(?:[{_CLOSERS}]|\[\d{{1,3}}\]|[ \u00a0\u202f]»)*"
_ENDING = re.compile(rf"[.?!…‥‽\u037e{_FULL_STOPS}]+{_AFTER}")
_GREEK_ENDING = re.compile(rf"[.?!;…\u037e]+{_AFTER}")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_OPENERS = "\"'“”„‚‘’«»‹›([{¿¡「『（【《〈〔*_#–—―‐-• \u00a0\u202f"
_WORD_BEFORE = re.compile(r"(?:[\w№]|(?<=[\w.])[-.’'](?=[\w.]))+\.?$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_NUMBER = re.compile(r"\d{1,3}|[IVXLC]{1,6}")
# Small letters that begin a sentence: the item of a list, a name such as eBay.
_SMALL = re.compile(r"[a-z][A-Z)]")
_ROMAN = re.compile(r"[IVXLCivxlc]+")
_OUTLINE = re.compile(r"[(\[]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})[.)]*")
_QUOTE_GOES_ON = re.compile(r"[とっ、，,]")
_CJK_BRACKETS = dict(zip("「『（【《", "」』）】》", strict=True))
_LONGEST_WORD = 60
_LONGEST_QUOTE = 400


@dataclass(frozen=True)
class SplittingRules:
    """What one language knows about full stops; words are stored without the last one."""

    goes_on: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    starts: frozenset[str] = frozenset()
    before_ordinal: frozenset[str] = frozenset()
    after_ordinal: frozenset[str] = frozenset()
    ordinals: bool = False
    capital_nouns: bool = False
    semicolon_asks: bool = False


def split_sentences(text: str, language: str = "") -> list[tuple[int, int]]:
    """Return the spans of the sentences of `text`, in order, without the white space around.

    Every other character belongs to exactly one span. A blank line ends a sentence, a single
    line break does not. `language` is a code such as "de" or "pt-BR"; for an unknown one the
    abbreviations of all languages count.
    """
    rules = _rules(re.split(r"[-_]", language.lower())[0])
    spans, start = [], 0
    for end in _ends(text, rules):
        if span := _trimmed(text, start, end):
            spans.append(span)
        start = end
    return spans


def known_languages() -> list[str]:
    """Return the codes of the languages with lists of their own."""
    return sorted(path.stem for path in _LISTS.glob("*.toml"))


def _ends(text: str, rules: SplittingRules) -> Iterable[int]:
    paragraph = 0
    for blank in [*_BLANK_LINE.finditer(text), None]:
        stop = blank.start() if blank else len(text)
        yield from _ends_in_paragraph(text, paragraph, stop, rules)
        yield stop
        paragraph = blank.end() if blank else stop


def _ends_in_paragraph(
    text: str, start: int, stop: int, rules: SplittingRules
) -> Iterable[int]:
    quoted_until = start
    ending = _GREEK_ENDING if rules.semicolon_asks else _ENDING
    for match in ending.finditer(text, start, stop):
        if match.start() < quoted_until:
            continue
        if until := _end_of_quote(text, start, match.start(), stop):
            quoted_until = until - 1
            if match.end() < until:
                continue
        if _ends_sentence(text, start, match, stop, rules):
            yield match.end()
            start = quoted_until = match.end()


def _end_of_quote(text: str, start: int, place: int, stop: int) -> int:
    """Return where the CJK quotation around `place` ends, or 0 if there is none."""
    start = max(start, place - _LONGEST_QUOTE)
    opened = max((text.rfind(opener, start, place), opener) for opener in _CJK_BRACKETS)
    if opened[0] < 0:
        return 0
    closer = _CJK_BRACKETS[opened[1]]
    end = text.find(closer, opened[0], min(stop, opened[0] + _LONGEST_QUOTE))
    return end + 1 if end >= place else 0


def _ends_sentence(
    text: str, start: int, match: re.Match[str], stop: int, rules: SplittingRules
) -> bool:
    mark, end = match.group(), match.end()
    if end == stop:
        return False  # the paragraph ends there anyway
    if any(stop_mark in mark for stop_mark in _FULL_STOPS):
        # “走吧！”他说: who said it follows.
        begins_quoted = mark[-1] == "”" and text[start:end].lstrip()[:1] == "“"
        quoted = mark[-1] not in _FULL_STOPS
        return not begins_quoted and not (quoted and _QUOTE_GOES_ON.match(text, end))
    if not text[end].isspace():
        # Closing quotes of CJK need no space: 「OK.」
        return mark[-1] in "」』）】》" and not _QUOTE_GOES_ON.match(text, end)
    following = text[end : min(stop, end + _LONGEST_WORD)].lstrip()
    first = following.lstrip(_OPENERS)[:1]
    if not first or first in ",;:?!…" or (first.islower() and not _SMALL.match(following)):
        return False
    only_stop = mark[0] == "." and mark[1:2] != "."
    return not only_stop or not _belongs_to_word(text, start, match, following, rules)


def _belongs_to_word(
    text: str, start: int, match: re.Match[str], following: str, rules: SplittingRules
) -> bool:
    """Say whether the full stop belongs to an abbreviation, initials or an ordinal."""
    before = text[max(start, match.start() - _LONGEST_WORD) : match.start()]
    if len(match.group()) > 1:
        return False
    if match.start() - start < _LONGEST_WORD and _OUTLINE.fullmatch(before.strip()):
        return True  # "1. Open the box": the number of an item of a list
    found = _WORD_BEFORE.search(before)
    word = found.group() if found else ""
    head = before[: -len(word)] if word else before
    after = re.split(r"[^\w.]", following.lstrip(_OPENERS), maxsplit=1)[0]
    if _is_abbreviation(word, head, after, rules):
        return True
    return rules.ordinals and bool(_NUMBER.fullmatch(word)) and _is_ordinal(head, after, rules)


def _is_abbreviation(word: str, head: str, after: str, rules: SplittingRules) -> bool:
    initial = _INITIALS.fullmatch(after.removesuffix("."))
    after = after if initial and after[-1] == "." else after.rstrip(".")
    spaced = head.split()[-1:] + [word]  # "z. B." is the same as "z.B."
    words = {word, "".join(spaced) if spaced[0].endswith(".") else word}
    words |= {re.split(r"[’']", word)[-1], word[:1].lower() + word[1:]}  # "l'art.", "Vgl."
    if words & rules.goes_on:
        return True
    if words & rules.before_number and (after[:1].isdigit() or _ROMAN.fullmatch(after)):
        return True
    if words & rules.may_end:
        return not _starts_sentence(after, rules)
    if _INITIALS.fullmatch(word) and word[0].isupper():
        return after not in rules.starts and after[:1].isupper()
    return False


def _starts_sentence(after: str, rules: SplittingRules) -> bool:
    return after in rules.starts or (after[:1].isupper() and not rules.capital_nouns)


def _is_ordinal(head: str, after: str, rules: SplittingRules) -> bool:
    if after.rstrip(".") in rules.after_ordinal:
        return True
    previous = head.split()[-1:]
    return bool(previous) and previous[0].lower() in rules.before_ordinal


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    inner = text[start:end]
    left = len(inner) - len(inner.lstrip())
    return (start + left, start + len(inner.rstrip())) if left < len(inner) else None


@cache
def _rules(language: str) -> SplittingRules:
    names = [language] if language in known_languages() else known_languages()
    loaded = [tomllib.loads((_LISTS / f"{name}.toml").read_text("utf-8")) for name in names]
    if len(loaded) > 1:
        loaded = [{**one, "capital_nouns": False, "semicolon_asks": False} for one in loaded]
    joined: dict[str, frozenset[str] | bool] = {}
    for name in (field.name for field in fields(SplittingRules)):
        values = [one.get(name, False) for one in loaded]
        lists = [value for value in values if isinstance(value, list)]
        flags = any(value is True for value in values)
        is_flag = name in ("ordinals", "capital_nouns", "semicolon_asks")
        joined[name] = flags if is_flag else frozenset(w for words in lists for w in words)
    return SplittingRules(**joined)  # type: ignore[arg-type]
