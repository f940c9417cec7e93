"""The second pass: clean text → ids, without what is too long or too lopsided in pieces."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import Dropped
from unisono.corpus.writer import Packed
from unisono.prepare.lengths import LengthFilter
from unisono.prepare.reasons import Drops, clipped
from unisono.prepare.spool import SpooledText
from unisono.prepare.words import LineEncoder
from unisono.text.load import load_tokenizers
from unisono.text.tokenizer import UNKNOWN_ID

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
class PackedPairs:
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


class Packer:
    """Encode portions; the tokenizers are loaded when the first comes."""

    def __init__(self, settings: CorpusSettings, pieces: Pieces) -> None:
        self._limits = LengthFilter(settings)
        self._pieces = pieces
        self._encoders: tuple[LineEncoder, ...] = ()

    def __call__(self, portion: Portion) -> PackedPairs:
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
        return PackedPairs(
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
