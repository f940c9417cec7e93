"""Translate lines of text: normalise, encode, search, decode.

Shapes: B sentences, S source positions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import torch
from torch import Tensor

from unisono.models.transformer import TransformerModel
from unisono.process_pool import InProcess, ProcessPool, worker_pool
from unisono.text.normalise import Normalisation, cut_all
from unisono.text.tokenizer import END_ID, PADDING_ID, Tokenizers
from unisono.translate.beam import search
from unisono.translate.settings import Decoding

# With fewer lines one process is done before another has started.
LINES_PER_WORKER = 50

Ids = list[int]
Workers = InProcess[list[Ids], list[Ids]] | ProcessPool[list[Ids], list[Ids]]


@dataclass(frozen=True)
class Translation:
    """A translated line; in several parts if it was too long for the model."""

    text: str
    parts: int


@dataclass(frozen=True, eq=False)
class Translator:
    """A model or an ensemble, its tokenizers, and the settings of the search.

    Nothing is ever left out. A line of more than `max_pieces` pieces is split into chunks of
    about the same length; each is translated by itself, and the results are joined. Choose
    `max_pieces` no larger than the lengths the models were trained on. The tags at the start
    of a line apply to each of its chunks.

    At most `tokens_per_batch` source positions, padding included, are translated at once.
    """

    models: Sequence[TransformerModel]
    tokenizers: Tokenizers
    decoding: Decoding = Decoding()
    normalisation: Normalisation = Normalisation()
    max_pieces: int = 200
    tokens_per_batch: int = 2000

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the translation of each line, in order; an empty line gives an empty line.

        The other lines do not matter to a line, up to the last bits of its scores.
        """
        return [translation.text for translation in self.translations(lines)]

    def translations(self, lines: Sequence[str]) -> list[Translation]:
        """Like `translate`, but also return the number of parts of each line."""
        return self._translated(lines, InProcess(self._search))

    def translate_stream(
        self, lines: Iterable[str], batch_lines: int = 1000, workers: int = 1
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, reading `batch_lines` ahead.

        Larger batches are faster, because lines of about the same length are translated
        together; smaller ones return sooner. If there are enough lines, `workers` forked
        processes with one thread each translate them and share the memory of the models; so
        do not compute anything before. A single worker is this process.
        """
        remaining = iter(lines)
        batch = list(islice(remaining, batch_lines))
        workers = min(workers, len(batch) // LINES_PER_WORKER)
        alone = workers < 2
        task = self._search if alone else self._search_on_one_thread
        with worker_pool(task, 0 if alone else workers, "fork") as by:
            while batch:
                yield from self._translated(batch, by)
                batch = list(islice(remaining, batch_lines))

    def _translated(self, lines: Sequence[str], by: Workers) -> list[Translation]:
        # A line that does not come from a file may contain line feeds.
        clean = self.normalisation([line.replace("\n", " ") for line in lines])
        tags, rest = cut_all(clean, self.tokenizers.source.tags)
        pieces = self.tokenizers.source.encode(rest)
        chunks = [self._chunks(*line) for line in zip(tags, pieces, strict=True)]
        flat = [chunk for line in chunks for chunk in line]
        texts = iter(self.tokenizers.target.decode(self._translate_ids(flat, by)))
        return [Translation(" ".join(islice(texts, len(c))), len(c)) for c in chunks]

    def _chunks(self, tags: Ids, ids: Ids) -> list[Ids]:
        """Split `ids` into as few chunks as possible, each after all `tags`; [] for no ids."""
        count = -(-len(ids) // max(1, self.max_pieces - len(tags)))
        bounds = [len(ids) * index // count for index in range(count)] + [len(ids)]
        return [tags + ids[start:end] for start, end in pairwise(bounds)]

    def _translate_ids(self, sources: list[Ids], by: Workers) -> list[Ids]:
        found: list[Ids] = [[] for _ in sources]
        batches = list(self._batches([len(ids) + 1 for ids in sources], by.count))
        results = by.results([sources[place] for place in places] for places in batches)
        for places, translations in zip(batches, results, strict=True):
            for place, ids in zip(places, translations, strict=True):
                found[place] = ids
        return found

    def _search(self, sources: list[Ids]) -> list[Ids]:
        """Return the best translation of each of `sources`, which fit into one batch."""
        batch = _padded(sources).to(self.models[0].device)
        return [list(best.ids) for best, *_ in search(self.models, batch, self.decoding)]

    def _search_on_one_thread(self, sources: list[Ids]) -> list[Ids]:
        torch.set_num_threads(1)
        return self._search(sources)

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


def _padded(sources: list[Ids]) -> Tensor:
    longest = max(len(ids) for ids in sources) + 1
    rows = [ids + [END_ID] + [PADDING_ID] * (longest - 1 - len(ids)) for ids in sources]
    return torch.tensor(rows)  # (B, S)
