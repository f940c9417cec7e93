"""From lines of text to lines of text.

Shapes: B sentences, S source positions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from unisono.models.transformer import TransformerModel
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import END_ID, PADDING_ID, Tokenizers
from unisono.translate.beam import search
from unisono.translate.settings import Decoding


@dataclass(frozen=True)
class Translation:
    """A translated line. More than one part: it was too long for the model, and was cut."""

    text: str
    parts: int


@dataclass(frozen=True, eq=False)
class Translator:
    """A model, its tokenizers and a way to search.

    Nothing is ever left out. A line of more than `max_pieces` pieces is cut into chunks of
    about the same length; each is translated by itself, and the results are joined. Choose
    `max_pieces` no larger than the lengths the model was trained on.

    At most `tokens_per_batch` source positions, padding included, are translated at once.
    """

    model: TransformerModel
    tokenizers: Tokenizers
    decoding: Decoding = Decoding()
    normalisation: Normalisation = Normalisation()
    max_pieces: int = 200
    tokens_per_batch: int = 2000

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the translation of each line, in order; of an empty line, an empty line.

        A line is translated the same in any company, up to the last bits of its scores.
        """
        return [translation.text for translation in self.translations(lines)]

    def translations(self, lines: Sequence[str]) -> list[Translation]:
        """Return what `translate` does, and in how many parts each line was translated."""
        # A line that came by another way than a file may hold line feeds.
        clean = self.normalisation([line.replace("\n", " ") for line in lines])
        pieces = self.tokenizers.source.encode(clean)
        chunks = [self._cut(ids) for ids in pieces]
        flat = [chunk for line in chunks for chunk in line]
        texts = iter(self.tokenizers.target.decode(self._translate_ids(flat)))
        return [Translation(" ".join(islice(texts, len(c))), len(c)) for c in chunks]

    def translate_stream(
        self, lines: Iterable[str], batch_lines: int = 1000
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, reading `batch_lines` ahead.

        More lines at once are faster, because lines of about the same length are translated
        together; fewer come out sooner.
        """
        remaining = iter(lines)
        while batch := list(islice(remaining, batch_lines)):
            yield from self.translations(batch)

    def _cut(self, ids: list[int]) -> list[list[int]]:
        """Return `ids` in as few chunks as needed; no ids, no chunk."""
        count = -(-len(ids) // self.max_pieces)
        bounds = [len(ids) * index // count for index in range(count)] + [len(ids)]
        return [ids[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]

    def _translate_ids(self, sources: list[list[int]]) -> list[Sequence[int]]:
        found: list[Sequence[int]] = [[] for _ in sources]
        for places in self._batches([len(ids) + 1 for ids in sources]):
            batch = _padded([sources[place] for place in places]).to(self.model.device)
            hypotheses = search(self.model, batch, self.decoding)
            for place, (best, *_) in zip(places, hypotheses, strict=True):
                found[place] = best.ids
        return found

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Yield places of sentences of about the same length, the longest first.

        If memory does not suffice, the first batch shows it.
        """
        order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
        while order:
            count = max(1, self.tokens_per_batch // lengths[order[0]])
            yield order[:count]
            order = order[count:]


def _padded(sources: list[list[int]]) -> Tensor:
    longest = max(len(ids) for ids in sources) + 1
    rows = [ids + [END_ID] + [PADDING_ID] * (longest - 1 - len(ids)) for ids in sources]
    return torch.tensor(rows)  # (B, S)
