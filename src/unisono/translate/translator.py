"""Translate lines of text: normalise, encode, search, decode.

Shapes: B sentences, S source positions.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Protocol

import torch
from torch import Tensor

from unisono.models.transformer import TransformerModel
from unisono.process_pool import InProcess, ProcessPool, worker_pool
from unisono.text.document_parts import side_by_side
from unisono.text.long_sentences import split_to_fit
from unisono.text.normalise import Normalisation, cut_all
from unisono.text.tokenizer import END_ID, PADDING_ID, Tokenizers
from unisono.translate.beam import Hypothesis, search
from unisono.translate.sampling import given_log_probabilities, sample
from unisono.translate.settings import Decoding, PieceSampling

# With fewer lines one process is done before another has started.
LINES_PER_WORKER = 50
_LINE_BREAKS = str.maketrans("\r\n", "  ")

Ids = list[int]


@dataclass(frozen=True)
class SearchChunk:
    """What one search translates: source ids, how the target begins, a key to draw by."""

    ids: Ids
    prefix: Ids
    key: tuple[int, ...]


Found = list[list[Hypothesis]]
Workers = InProcess[list[SearchChunk], Found] | ProcessPool[list[SearchChunk], Found]


@dataclass(frozen=True)
class RankedTranslation:
    """One translation of a line; `pieces` counts the end of each of its parts, too."""

    text: str
    score: float
    log_probability: float
    pieces: int

    @property
    def confidence(self) -> float:
        """Return the geometric mean of the probabilities of the pieces, from 0 to 1."""
        return math.exp(self.log_probability / self.pieces) if self.pieces else 1.0


@dataclass(frozen=True)
class Translation:
    """A translated line; in several parts if it was too long for the model.

    The first of the `alternatives` is `text`; an empty line has none. They do not count in
    comparisons: the last bits of their scores depend on the batch. `native` is there if another
    program searched whose own ranking is not ours: the translation that it puts first.
    """

    text: str
    parts: int
    alternatives: tuple[RankedTranslation, ...] = field(default=(), compare=False)
    native: str | None = None


@dataclass(frozen=True)
class GivenScore:
    """The log-probability of a given translation, and its pieces, the end included."""

    log_probability: float
    pieces: int


class SearchEngine(Protocol):
    """Another program that searches in place of our own beam search."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        decoding: Decoding,
    ) -> Found:
        """Return the hypotheses of each of `sources`, best first."""


@dataclass(frozen=True, eq=False)
class Translator:
    """A model or an ensemble, its tokenizers, and the settings of the search.

    Nothing is ever left out. A line of more than `max_pieces` pieces is split between its
    sentences or clauses, as its `language` has them; each part is translated by itself, and the
    results are joined. Choose `max_pieces` no larger than the lengths the models were trained
    on. The tags at the start of a line apply to each of its parts.

    At most `tokens_per_batch` source positions, padding included, are translated at once. Each
    line gets up to `best` alternatives, which the beam has to be wide enough for; with
    `sampling` they are drawn, not searched. An `engine` searches in place of `models`.
    """

    models: Sequence[TransformerModel]
    tokenizers: Tokenizers
    decoding: Decoding = Decoding()
    normalisation: Normalisation = Normalisation()
    max_pieces: int = 200
    tokens_per_batch: int = 2000
    best: int = 1
    sampling: PieceSampling | None = None
    engine: SearchEngine | None = None
    language: str = ""

    def fits(self, text: str) -> bool:
        """Say whether `text` is no longer than what the models were trained on."""
        [ids] = self.tokenizers.source.encode(self._clean([text]))
        return len(ids) <= self.max_pieces

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the translation of each line, in order; an empty line gives an empty line.

        The other lines do not matter to a line, up to the last bits of its scores.
        """
        return [translation.text for translation in self.translations(lines)]

    def translations(
        self, lines: Sequence[str], prefixes: Sequence[str] = (), first: int = 0
    ) -> list[Translation]:
        """Like `translate`, but also return the parts and alternatives of each line.

        A translation begins with its prefix, if there are any. `first` is the place in the
        text of the first line: what is drawn depends on it.
        """
        return self._translated(lines, prefixes, first, InProcess(self._search))

    def translate_stream(
        self,
        lines: Iterable[str],
        batch_lines: int = 1000,
        workers: int = 1,
        prefixes: Iterable[str] = (),
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, reading `batch_lines` ahead.

        Larger batches are faster, because lines of about the same length are translated
        together; smaller ones return sooner. If there are enough lines, `workers` forked
        processes with one thread each translate them and share the memory of the models; so
        do not compute anything before. A single worker is this process.
        """
        remaining, starts, first = iter(lines), iter(prefixes), 0
        batch = list(islice(remaining, batch_lines))
        workers = min(workers, len(batch) // LINES_PER_WORKER)
        alone = workers < 2
        task = self._search if alone else self._search_on_one_thread
        with worker_pool(task, 0 if alone else workers, "fork") as by:
            while batch:
                yield from self._translated(batch, list(islice(starts, len(batch))), first, by)
                first += len(batch)
                batch = list(islice(remaining, batch_lines))

    def score_given(
        self, lines: Sequence[str], translations: Sequence[str]
    ) -> list[GivenScore]:
        """Return how likely each given translation of a line is; nothing is split."""
        tags, rest = cut_all(self._clean(lines), self.tokenizers.source.tags)
        pieces = self.tokenizers.source.encode(rest)
        sources = [tag + ids for tag, ids in zip(tags, pieces, strict=True)]
        targets = self.tokenizers.target.encode(self._clean(translations))
        found: dict[int, float] = {}
        lengths = [max(map(len, p)) + 1 for p in zip(sources, targets, strict=True)]
        for places in self._batches(lengths):
            sides = (padded_sources([side[n] for n in places]) for side in (sources, targets))
            source, target = (side.to(self.models[0].device) for side in sides)
            logs = given_log_probabilities(self.models, source, target)
            found |= zip(places, logs, strict=True)
        return [GivenScore(found[n], len(target) + 1) for n, target in enumerate(targets)]

    def _clean(self, lines: Sequence[str]) -> list[str]:
        # A line that does not come from a file may contain line feeds.
        return self.normalisation([line.replace("\n", " ") for line in lines])

    def _translated(
        self, lines: Sequence[str], prefixes: Sequence[str], first: int, by: Workers
    ) -> list[Translation]:
        chunks = self.chunks(lines, prefixes, first)
        found = iter(self._search_all([chunk for line in chunks for chunk in line], by))
        return [self.joined(list(islice(found, len(line)))) for line in chunks]

    def chunks(
        self, lines: Sequence[str], prefixes: Sequence[str] = (), first: int = 0
    ) -> list[list[SearchChunk]]:
        """Return what to search for each line, in order; an empty line has nothing."""
        tags, rest = cut_all(self._clean(lines), self.tokenizers.source.tags)
        pieces = self.tokenizers.source.encode(rest)
        starts = self.tokenizers.target.encode(self._clean(prefixes)) or [[]] * len(lines)
        return [
            [
                SearchChunk(ids, [] if part else start, (number, part))
                for part, ids in enumerate(self._chunks(tag, text, line))
            ]
            for number, (start, tag, text, line) in enumerate(
                zip(starts, tags, rest, pieces, strict=True), start=first
            )
        ]

    def joined(self, parts: Found) -> Translation:
        """Return the translation of a line, given the hypotheses of each of its chunks."""
        count = max(map(len, parts), default=0)
        # A part with fewer alternatives repeats its best.
        rows = [[part[n] if n < len(part) else part[0] for part in parts] for n in range(count)]
        alternatives = tuple(self._alternative(row) for row in rows)
        text = alternatives[0].text if alternatives else ""
        return Translation(text, len(parts), alternatives)

    def _alternative(self, parts: list[Hypothesis]) -> RankedTranslation:
        texts = self.tokenizers.target.decode([part.ids for part in parts])
        return RankedTranslation(
            # Pieces that are bytes can break a line, but a translation is one line.
            side_by_side([text.translate(_LINE_BREAKS) for text in texts]),
            sum(part.score for part in parts),
            sum(part.log_probability for part in parts),
            sum(len(part.ids) + 1 for part in parts),
        )

    def _chunks(self, tags: Ids, text: str, ids: Ids) -> list[Ids]:
        """Split `text`, whose pieces are `ids`, into parts that fit, each after all `tags`."""
        room = max(1, self.max_pieces - len(tags))
        if len(ids) <= room:
            return [tags + ids] if ids else []
        encode = self.tokenizers.source.encode
        spans = split_to_fit(text, lambda part: len(encode([part])[0]) <= room, self.language)
        parts = encode([text[start:end] for start, end in spans])
        return [tags + chunk for part in parts for chunk in _even_chunks(part, room)]

    def _search_all(self, chunks: list[SearchChunk], by: Workers) -> Found:
        found: Found = [[] for _ in chunks]
        batches = list(self._batches([len(chunk.ids) + 1 for chunk in chunks], by.count))
        results = by.results([chunks[place] for place in places] for places in batches)
        for places, hypotheses in zip(batches, results, strict=True):
            for place, best in zip(places, hypotheses, strict=True):
                found[place] = best
        return found

    def _search(self, chunks: list[SearchChunk]) -> Found:
        """Return the best translations of each of `chunks`, which fit into one batch."""
        prefixes = [chunk.prefix for chunk in chunks]
        if self.engine is not None:
            ids = [chunk.ids for chunk in chunks]
            found = self.engine.search(ids, prefixes, self.decoding)
            return [hypotheses[: self.best] for hypotheses in found]
        source = padded_sources([chunk.ids for chunk in chunks]).to(self.models[0].device)
        if self.sampling is None:
            found = search(self.models, source, self.decoding, prefixes, self.best)
            return [hypotheses[: self.best] for hypotheses in found]
        return self._draw(source, self.sampling, chunks, prefixes)

    def _draw(
        self,
        source: Tensor,
        sampling: PieceSampling,
        chunks: list[SearchChunk],
        prefixes: list[Ids],
    ) -> Found:
        """Draw `best` translations of each chunk, the likeliest first."""
        keys = [[(*chunk.key, n) for chunk in chunks] for n in range(self.best)]
        drawn = [
            sample(self.models, source, self.decoding, sampling, some, prefixes)
            for some in keys
        ]
        return [sorted(row, key=lambda h: -h.score) for row in zip(*drawn, strict=True)]

    def _search_on_one_thread(self, chunks: list[SearchChunk]) -> Found:
        torch.set_num_threads(1)
        return self._search(chunks)

    def _batches(self, lengths: list[int], workers: int = 1) -> Iterator[list[int]]:
        """Yield the indices of sentences of about the same length, the longest first.

        If memory is too small, the first batch fails. For several workers the batches become
        smaller towards the end, so that all finish at about the same time.
        """
        order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
        left = sum(lengths)
        while order:
            budget = self.tokens_per_batch
            if workers > 1:
                budget = min(budget, max(left // (2 * workers), budget // 8))
            count = max(1, budget // lengths[order[0]])
            left -= sum(lengths[place] for place in order[:count])
            yield order[:count]
            order = order[count:]


def _even_chunks(ids: Ids, room: int) -> list[Ids]:
    """Split `ids` evenly; only a single character of many pieces has more than one chunk."""
    count = -(-len(ids) // room)
    bounds = [len(ids) * index // count for index in range(count)] + [len(ids)]
    return [ids[start:end] for start, end in pairwise(bounds)]


def padded_sources(sources: Sequence[Ids]) -> Tensor:
    """Return sources as rows (B, S), each with its end and padding."""
    longest = max(len(ids) for ids in sources) + 1
    rows = [ids + [END_ID] + [PADDING_ID] * (longest - 1 - len(ids)) for ids in sources]
    return torch.tensor(rows)  # (B, S)
