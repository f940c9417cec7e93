"""Translate lines as they come: each joins those that are under way, and leaves when done."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.translate.beam import BeamSearch, Hypothesis
from unisono.translate.translator import (
    SearchChunk,
    Translation,
    Translator,
    padded_sources,
)

# A sentence that joins costs the others a little: those that come soon after each other wait.
JOIN_TOGETHER = 4
JOIN_STEPS = 3


@dataclass
class _Line:
    """A line whose chunks are translated: which are missing, and what the others have."""

    ticket: int
    parts: dict[int, list[Hypothesis]] = field(default_factory=dict)
    missing: int = 0


class LineStream:
    """Lines that a translator translates together, whenever they come; it must not draw."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._search = BeamSearch(translator.models, translator.decoding, translator.best)
        self._waiting: deque[tuple[int, SearchChunk]] = deque()
        self._lines: dict[int, tuple[_Line, int]] = {}  # by the keys of chunks
        self._positions: dict[int, int] = {}  # of what is searched, padding included
        self._done: list[_Line] = []
        self._next_key, self._steps = 0, 0

    @property
    def is_empty(self) -> bool:
        return not (self._lines or self._done)

    @property
    def tickets(self) -> list[int]:
        """Return the tickets of the lines under way."""
        lines = [line for line, _ in self._lines.values()] + self._done
        return list(dict.fromkeys(line.ticket for line in lines))

    def add(self, tickets: Sequence[int], lines: Sequence[str]) -> None:
        """Let lines join, each with a number by which its translation is known."""
        for ticket, chunks in zip(tickets, self._translator.chunks(lines), strict=True):
            line = _Line(ticket, missing=len(chunks))
            if not chunks:
                self._done.append(line)
            for part, chunk in enumerate(chunks):
                self._lines[self._next_key] = line, part
                self._waiting.append((self._next_key, chunk))
                self._next_key += 1

    def step(self) -> list[tuple[int, Translation]]:
        """Decode one more id of each line; return those that are done, with their tickets."""
        self._join()
        done, self._done = self._done, []
        for key, hypotheses in self._search.step().items():
            del self._positions[key]
            line, part = self._lines.pop(key)
            line.parts[part] = hypotheses[: self._translator.best]
            line.missing -= 1
            if not line.missing:
                done.append(line)
        self._steps += 1
        return [(line.ticket, self._translation(line)) for line in done]

    def _join(self) -> None:
        """Begin to search what waits, as far as the size of a batch goes."""
        if not self._waiting:
            return
        if self._search and len(self._waiting) < JOIN_TOGETHER and self._steps < JOIN_STEPS:
            return
        chosen: list[tuple[int, SearchChunk]] = []
        room, longest = self._translator.tokens_per_batch - sum(self._positions.values()), 0
        while self._waiting:
            longest = max(longest, len(self._waiting[0][1].ids) + 1)
            if longest * (len(chosen) + 1) > room and (chosen or self._search):
                break
            chosen.append(self._waiting.popleft())
        if chosen:
            source = padded_sources([chunk.ids for _, chunk in chosen])
            keys = [key for key, _ in chosen]
            self._search.add(source.to(self._translator.models[0].device), keys)
            self._positions |= dict.fromkeys(keys, source.size(1))
            self._steps = 0

    def _translation(self, line: _Line) -> Translation:
        return self._translator.joined([line.parts[part] for part in sorted(line.parts)])
