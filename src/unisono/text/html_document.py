"""Plan the translation of an HTML page: its parts, as spans of the original. No torch here."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from unisono.text.document_parts import DocumentPart, FixedText, SentenceList, has_words
from unisono.text.html_runs import InlineMark, TextRun, text_runs
from unisono.text.long_sentences import sentence_spans
from unisono.text.markup_placement import WORD, MarkedSentence, MarkupNode

_MASK = "\ufffc"
_DEEPEST = 40
# Words between tags are translated a second time, up to so many times the sentence's length.
_FRAGMENT_SHARE = 2


def html_parts(
    page: str, language: str, fits: Callable[[str], bool], found: SentenceList
) -> tuple[DocumentPart, ...]:
    """Return the parts of a page, and add its sentences to `found`."""
    parts, done = list[DocumentPart](), 0
    for run in text_runs(page):
        planner = _RunPlanner(page, run, found)
        for start, end, part in planner.parts(language, fits):
            if start > done:
                parts.append(FixedText(page[done:start]))
            parts.append(part)
            done = end
    if done < len(page):
        parts.append(FixedText(page[done:]))
    return tuple(parts)


@dataclass
class _RunPlanner:
    page: str
    run: TextRun
    found: SentenceList

    def parts(
        self, language: str, fits: Callable[[str], bool]
    ) -> Iterator[tuple[int, int, DocumentPart]]:
        """Yield the sentences of the run, each with its span in the page."""
        run = self.run
        self.text = re.sub(r"\s", " ", "".join(run.characters))
        words = [match.span() for match in WORD.finditer(self.text)]
        self.word_starts = [start for start, _ in words]
        self.word_ends = [end for _, end in words]
        pairs = zip(self.text, run.is_masked, strict=True)
        masked = "".join(_MASK if hidden else character for character, hidden in pairs)
        for start, end in sentence_spans(masked, language, fits):
            if has_words(masked[start:end]):
                yield from self._sentence(start, end)

    def _sentence(self, start: int, end: int) -> Iterator[tuple[int, int, DocumentPart]]:
        left, right, marks = self._inside(start, end)
        root = self._tree(start, end, marks)
        if root is None:
            yield from self._between_marks(start, end, marks)
            return
        sentence = self._flat(start, end)
        instead = self._instead(left, right, start, end, marks)
        part = MarkedSentence(
            self.found.index(sentence),
            sentence,
            self.page[left:right],
            root,
            self._spellings(start, end, marks),
            instead,
        )
        yield left, right, part

    def _inside(self, start: int, end: int) -> tuple[int, int, list[InlineMark]]:
        """Return the span of a sentence in the page, and the marks inside.

        Tags at its edges belong inside if the other tag of their element does.
        """
        low = bisect_left(self.run.marks, start, key=_offset)
        high = bisect_right(self.run.marks, end, key=_offset)
        near = self.run.marks[low:high]
        inner = [mark for mark in near if _is_inner(mark, start, end)]
        left = min([self.run.starts[start], *(mark.start for mark in inner)])
        right = max([self.run.ends[end - 1], *(mark.end for mark in inner)])
        return left, right, [mark for mark in near if left <= mark.start < right]

    def _tree(self, start: int, end: int, marks: list[InlineMark]) -> MarkupNode | None:
        """Return the markup of a sentence as a tree; None if it is nested too deeply."""
        root = self._node(start, end)
        stack, skip_until = [root], -1
        inside = {id(mark) for mark in marks}
        for mark in reversed(marks):
            if mark.kind == "close" and id(mark.partner) not in inside:
                stack.append(self._child(stack[-1], start, mark.offset))
                stack[-1].open_left = True
        for mark in marks:
            if mark.start >= skip_until:
                skip_until = self._grow(stack, mark, inside, end)
            if len(stack) > _DEEPEST:
                return None
        self._add_fragments(root, _FRAGMENT_SHARE * (end - start))
        return root

    def _grow(
        self, stack: list[MarkupNode], mark: InlineMark, inside: set[int], end: int
    ) -> int:
        """Add a mark to the tree; return up to where in the page it covers others."""
        if mark.kind == "close":
            stack.pop().closing = self._raw(mark)
        elif mark.kind != "open":
            self._leaf(stack[-1], mark, mark.end)
        else:
            close = mark.partner if id(mark.partner) in inside else None
            if close and not self.text[mark.offset : close.offset].strip():
                self._leaf(stack[-1], mark, close.end)
                return close.end
            stack.append(self._child(stack[-1], mark.offset, close.offset if close else end))
            stack[-1].opening, stack[-1].open_right = self._raw(mark), close is None
        return -1

    def _node(self, start: int, end: int) -> MarkupNode:
        """Return a node that counts its place in words from the start of the run."""
        first = bisect_right(self.word_ends, start)
        node = MarkupNode("range", first, max(first, bisect_left(self.word_starts, end)))
        node.text, node.is_fixed = self._flat(start, end), all(self.run.is_masked[start:end])
        return node

    def _child(self, parent: MarkupNode, start: int, end: int) -> MarkupNode:
        parent.children.append(self._node(start, end))
        return parent.children[-1]

    def _leaf(self, parent: MarkupNode, mark: InlineMark, end: int) -> None:
        node = self._child(parent, mark.offset, mark.offset + mark.length)
        node.raw = self.page[mark.start : end]
        is_text = mark.kind == "verbatim" and node.text
        node.kind = "verbatim" if is_text else "space" if mark.kind == "space" else "point"

    def _add_fragments(self, node: MarkupNode, budget: int) -> int:
        for child in node.children:
            if child.kind != "range" or child.is_fixed:
                continue
            if len(child.text) <= budget and has_words(child.text):
                budget -= len(child.text)
                child.fragment = self.found.index(child.text)
            budget = self._add_fragments(child, budget)
        return budget

    def _instead(
        self, left: int, right: int, start: int, end: int, marks: list[InlineMark]
    ) -> tuple[DocumentPart, ...]:
        """Return the parts that translate what is between the verbatim marks."""
        fixed = [mark for mark in marks if mark.kind == "verbatim" and mark.length]
        if not fixed:
            return ()
        parts, done = list[DocumentPart](), left
        edges = [(mark.offset, mark.offset + mark.length) for mark in fixed]
        for first, last in _gaps(start, end, edges):
            if not has_words(self.text[first:last]):
                continue
            first, last = self._strip(first, last)
            for a, b, part in self._sentence(first, last):
                parts += [FixedText(self.page[done:a]), part]
                done = b
        return (*parts, FixedText(self.page[done:right]))

    def _between_marks(
        self, start: int, end: int, marks: list[InlineMark]
    ) -> Iterator[tuple[int, int, DocumentPart]]:
        """Yield each text between two marks as a sentence of its own."""
        edges = [(mark.offset, mark.offset + mark.length) for mark in marks]
        for first, last in _gaps(start, end, edges):
            if has_words(self.text[first:last]):
                first, last = self._strip(first, last)
                yield from self._sentence(first, last)

    def _strip(self, start: int, end: int) -> tuple[int, int]:
        inner = self.text[start:end]
        return start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())

    def _flat(self, start: int, end: int) -> str:
        return " ".join(self.text[start:end].split())

    def _raw(self, mark: InlineMark) -> str:
        return self.page[mark.start : mark.end]

    def _spellings(
        self, start: int, end: int, marks: list[InlineMark]
    ) -> dict[str, tuple[str, ...]]:
        """Return how characters that were written as entities are spelled, in order."""
        fixed = {mark.start for mark in marks if mark.kind in ("verbatim", "space")}
        found = defaultdict[str, list[str]](list)
        for place in range(start, end):
            first, last = self.run.starts[place], self.run.ends[place]
            character = self.run.characters[place]
            if first not in fixed and (last - first > 1 or character in "&<>"):
                found[character].append(self.page[first:last])
        return {character: tuple(raw) for character, raw in found.items()}


def _offset(mark: InlineMark) -> int:
    return mark.offset


def _is_inner(mark: InlineMark, start: int, end: int) -> bool:
    if mark.kind in ("verbatim", "space"):
        return start <= mark.offset and mark.offset + mark.length <= end
    if start < mark.offset < end:
        return True
    other = mark.partner
    if other is None or not start < other.offset < end:
        return False
    return mark.offset == (start if mark.kind == "open" else end)


def _gaps(start: int, end: int, edges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for first, last in edges:
        if first > start:
            yield start, first
        start = max(start, last)
    if end > start:
        yield start, end
