"""Encoding lines as bytes of ids, word by word from memory where that gives the same.

Most words of a text have been seen before. Looking up their ids is several times faster
than cutting every line into pieces again.

Which pairs are too long or too lopsided, counted in pieces.

The second pass: clean text → ids, without what is too long or too lopsided in pieces.
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
from unisono.prepare.first_pass.drops import LENGTH_RATIO, TOO_LONG, Drops, clipped
from unisono.prepare.spool import SpooledText
from unisono.text.load import load_tokenizers
from unisono.text.normalise import cut_all
from unisono.text.tokenizer import UNKNOWN_ID, Tokenizer

_REMEMBERED_WORDS = 300_000


class LineEncoder:
    """Encodes lines with a tokenizer into the bytes of their ids."""

    def __init__(self, tokenizer: Tokenizer, remembered_words: int = _REMEMBERED_WORDS) -> None:
        self._tokenizer = tokenizer
        self._type = id_type(tokenizer.size)
        self._memory: dict[str, bytes] = {}
        self._remembered_words = remembered_words
        self._known: dict[str, bool] = {" ": True}
        self.bytes_per_id = self._type.itemsize

    def encode(self, lines: Sequence[str]) -> list[bytes]:
        """Return the ids of each line, in the type of the corpus."""
        if not self._tokenizer.encodes_words_alone:
            return self._encode_anew(lines)
        words = [line.split(" ") for line in lines]
        ids_of = self._remember(words).__getitem__
        return [b"".join(map(ids_of, line)) for line in words]

    def encode_source(self, lines: Sequence[str], tag: str = "") -> list[bytes]:
        """Return the ids of source lines, the tags they begin with as one piece each.

        With a `tag` it comes before them.
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
        """Return ids from their bytes."""
        return np.frombuffer(data, self._type)

    def knows(self, character: str) -> bool:
        """Say whether the pieces can spell `character`."""
        known = self._known.get(character)
        if known is None:
            known = UNKNOWN_ID not in self._tokenizer.encode([character])[0]
            self._known[character] = known
        return known

    def _remember(self, words: list[list[str]]) -> dict[str, bytes]:
        """Return a memory that holds all of `words`; when it grows too large, it is emptied."""
        # All new words at once: the tokenizer takes long to begin.
        new = set().union(*words) - self._memory.keys()
        if len(self._memory) + len(new) > self._remembered_words:
            self._memory.clear()
            new = set().union(*words)
        listed = list(new)
        self._memory.update(zip(listed, self._encode_anew(listed), strict=True))
        return self._memory

    def _encode_anew(self, lines: Sequence[str]) -> list[bytes]:
        packed = pack_ids(self._tokenizer.encode(lines), self._tokenizer.size)
        ends = np.cumsum(packed.lengths * self.bytes_per_id).tolist()
        return [packed.ids[start:end] for start, end in pairwise([0, *ends])]


class LengthFilter:
    """Judge pairs by the number of their pieces."""

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
        """Say of each pair whether it is kept: `reason` for many at once."""
        longer = np.maximum(source_pieces, target_pieces)
        shorter = np.minimum(source_pieces, target_pieces)
        kept: NDArray[np.bool_] = longer <= self._max_pieces
        return kept & (longer <= self._max_ratio * shorter)


FIRST_PAIRS = 3
UNKNOWN_SHOWN = 10


@dataclass(frozen=True)
class Portion:
    """A chunk to be encoded, without the pairs that are not `wanted`.

    The `tag`, if there is one, goes in front of every source line.
    """

    text: SpooledText
    wanted: NDArray[np.bool_]
    tag: str = ""


@dataclass(frozen=True)
class EncodedPairs:
    """What became of a portion. `kept` has one entry for each wanted pair.

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
class Pieces:
    """Where the tokenizers of a corpus lie."""

    kind: str
    directory: Path
    joint: bool
    tags: tuple[str, ...] = ()


class ChunkEncoder:
    """Encode portions; the tokenizers are loaded when the first comes."""

    def __init__(self, settings: CorpusSettings, pieces: Pieces) -> None:
        self._limits = LengthFilter(settings)
        self._pieces = pieces
        self._encoders: tuple[LineEncoder, ...] = ()

    def __call__(self, portion: Portion) -> EncodedPairs:
        """Encode the wanted pairs and pack those whose lengths are right."""
        encoders = self._encoders = self._encoders or self._load()
        sides = [list(compress(side, portion.wanted)) for side in portion.text.read()]
        ids = [encoders[0].encode_source(sides[0], portion.tag), encoders[1].encode(sides[1])]
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
                clipped(f"{portion.tag} {source}".strip(), target)
                for source, target in zip(*(text[:FIRST_PAIRS] for text in texts), strict=True)
            ],
        )

    def _load(self) -> tuple[LineEncoder, LineEncoder]:
        pieces = self._pieces
        both = load_tokenizers(
            pieces.kind, pieces.directory, joint=pieces.joint, tags=pieces.tags
        )
        source = LineEncoder(both.source)
        return source, source if both.joint else LineEncoder(both.target)


def text_bytes(lines: Iterable[str]) -> int:
    """Count the bytes of all lines with their line feeds."""
    return len("".join(f"{line}\n" for line in lines).encode("utf-8"))


def _unknown_characters(encoder: LineEncoder, packed: Packed, lines: Sequence[str]) -> str:
    places = np.flatnonzero(encoder.ids(packed.ids) == UNKNOWN_ID)
    found: dict[str, None] = {}
    for index in np.unique(np.searchsorted(np.cumsum(packed.lengths), places, "right")):
        found |= dict.fromkeys(c for c in lines[index] if not encoder.knows(c))
        if len(found) >= UNKNOWN_SHOWN:
            break
    return "".join(found)[:UNKNOWN_SHOWN]
