"""Encode clean text as ids, and drop the pairs that are too long or too uneven in pieces.

Most words of a text have occurred before. Where a line is encoded word by word anyway, a
cache of words is several times faster than the tokenizer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import Dropped, id_type
from unisono.corpus.writer import Packed, pack_ids
from unisono.prepare.first_pass.clean_text import CleanChunk
from unisono.prepare.first_pass.filters import LENGTH_RATIO, TOO_LONG, Drops, clipped
from unisono.text.load import load_tokenizers
from unisono.text.normalise import cut_all
from unisono.text.tokenizer import UNKNOWN_ID, Tokenizer

_CACHED_WORDS = 300_000


class LineEncoder:
    """Encode lines with a tokenizer into the bytes of their ids."""

    def __init__(self, tokenizer: Tokenizer, cached_words: int = _CACHED_WORDS) -> None:
        self._tokenizer = tokenizer
        self._type = id_type(tokenizer.size)
        self._cache: dict[str, bytes] = {}
        self._cached_words = cached_words
        self._known: dict[str, bool] = {" ": True}
        self.bytes_per_id = self._type.itemsize

    def encode(self, lines: Sequence[str]) -> list[bytes]:
        """Return the ids of each line, in the type of the corpus."""
        if not self._tokenizer.encodes_words_alone:
            return self._tokenize(lines)
        words = [line.split(" ") for line in lines]
        ids_of = self._fill_cache(words).__getitem__
        return [b"".join(map(ids_of, line)) for line in words]

    def encode_source(self, lines: Sequence[str], tag: str = "") -> list[bytes]:
        """Return the ids of source lines; each tag they begin with is one piece.

        If a `tag` is given, it comes first.
        """
        known = self._tokenizer.tags
        if not known:
            return self.encode(lines)
        first = [known[tag]] if tag else []
        tags, texts = cut_all(lines, known)
        return [
            np.array([*first, *ids], self._type).tobytes() + text
            for ids, text in zip(tags, self.encode(texts), strict=True)
        ]

    def ids(self, data: bytes) -> NDArray[Any]:
        return np.frombuffer(data, self._type)

    def knows(self, character: str) -> bool:
        """Say whether the vocabulary covers `character`."""
        known = self._known.get(character)
        if known is None:
            known = UNKNOWN_ID not in self._tokenizer.encode([character])[0]
            self._known[character] = known
        return known

    def _fill_cache(self, words: list[list[str]]) -> dict[str, bytes]:
        """Return the cache with all of `words` in it; clear it if it would grow too large."""
        # All new words in one call: each call of the tokenizer is expensive.
        new = set().union(*words) - self._cache.keys()
        if len(self._cache) + len(new) > self._cached_words:
            self._cache.clear()
            new = set().union(*words)
        listed = list(new)
        self._cache.update(zip(listed, self._tokenize(listed), strict=True))
        return self._cache

    def _tokenize(self, lines: Sequence[str]) -> list[bytes]:
        packed = pack_ids(self._tokenizer.encode(lines), self._tokenizer.size)
        ends = np.cumsum(packed.lengths * self.bytes_per_id).tolist()
        return [packed.ids[start:end] for start, end in pairwise([0, *ends])]


class LengthFilter:
    """Find the pairs with too many pieces, or with far more on one side than on the other."""

    def __init__(self, settings: CorpusSettings) -> None:
        self._max_pieces = settings.max_pieces
        self._max_ratio = settings.max_length_ratio

    def reason(self, source_pieces: int, target_pieces: int) -> str:
        """Return why to drop the pair, or "" to keep it."""
        longer, shorter = max(source_pieces, target_pieces), min(source_pieces, target_pieces)
        if longer > self._max_pieces:
            return TOO_LONG
        return LENGTH_RATIO if longer > self._max_ratio * shorter else ""

    def kept(
        self, source_pieces: NDArray[np.int64], target_pieces: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Say for each pair whether to keep it: `reason` for many at once."""
        longer = np.maximum(source_pieces, target_pieces)
        shorter = np.minimum(source_pieces, target_pieces)
        kept: NDArray[np.bool_] = longer <= self._max_pieces
        return kept & (longer <= self._max_ratio * shorter)


FIRST_PAIRS = 3
UNKNOWN_SHOWN = 10


@dataclass(frozen=True)
class EncodedPairs:
    """A chunk as ids. `kept` has one entry for each pair that was to be encoded.

    `unknown` are characters of both sides that have no piece, `first_pairs` the text of the
    first few pairs.
    """

    source: Packed
    target: Packed
    kept: NDArray[np.bool_]
    dropped: dict[str, Dropped]
    text_bytes: int
    unknown: tuple[str, str]
    first_pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class TokenizerFiles:
    """The directory with the tokenizers of a corpus, and what a worker needs to load them."""

    kind: str
    directory: Path
    joint: bool
    tags: tuple[str, ...] = ()


class ChunkEncoder:
    """Encode chunks; each worker loads the tokenizers at its first chunk."""

    def __init__(self, settings: CorpusSettings, tokenizers: TokenizerFiles) -> None:
        self._limits = LengthFilter(settings)
        self._tokenizers = tokenizers
        self._encoders: tuple[LineEncoder, ...] = ()

    def __call__(self, chunk: CleanChunk) -> EncodedPairs:
        """Encode the pairs to keep, and pack those whose lengths are within the limits."""
        encoders = self._encoders = self._encoders or self._load()
        sides = [list(compress(side, chunk.keep)) for side in chunk.read()]
        ids = [encoders[0].encode_source(sides[0], chunk.tag), encoders[1].encode(sides[1])]
        lengths = [
            np.fromiter(map(len, side), np.int64, len(side)) // encoder.bytes_per_id
            for encoder, side in zip(encoders, ids, strict=True)
        ]
        kept = self._limits.kept(lengths[0], lengths[1])
        drops = Drops()
        for index in (~kept).nonzero()[0]:
            reason = self._limits.reason(int(lengths[0][index]), int(lengths[1][index]))
            drops.add(reason, sides[0][index], sides[1][index])
        packed = [
            Packed(b"".join(compress(side, kept)), length[kept])
            for side, length in zip(ids, lengths, strict=True)
        ]
        texts = [list(compress(side, kept)) for side in sides]
        unknown = [
            _unknown_characters(*side) for side in zip(encoders, packed, texts, strict=True)
        ]
        return EncodedPairs(
            packed[0],
            packed[1],
            kept,
            drops.summary(),
            text_bytes(chain(*texts)),
            (unknown[0], unknown[1]),
            [
                clipped(f"{chunk.tag} {source}".strip(), target)
                for source, target in zip(*(text[:FIRST_PAIRS] for text in texts), strict=True)
            ],
        )

    def _load(self) -> tuple[LineEncoder, LineEncoder]:
        files = self._tokenizers
        both = load_tokenizers(files.kind, files.directory, joint=files.joint, tags=files.tags)
        source = LineEncoder(both.source)
        return source, source if both.joint else LineEncoder(both.target)


def text_bytes(lines: Iterable[str]) -> int:
    """Count the bytes of all lines, line feeds included."""
    return len("".join(f"{line}\n" for line in lines).encode("utf-8"))


def _unknown_characters(encoder: LineEncoder, packed: Packed, lines: Sequence[str]) -> str:
    places = np.flatnonzero(encoder.ids(packed.ids) == UNKNOWN_ID)
    found: dict[str, None] = {}
    for index in np.unique(np.searchsorted(np.cumsum(packed.lengths), places, "right")):
        found |= dict.fromkeys(c for c in lines[index] if not encoder.knows(c))
        if len(found) >= UNKNOWN_SHOWN:
            break
    return "".join(found)[:UNKNOWN_SHOWN]
