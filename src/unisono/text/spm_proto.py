"""What a SentencePiece model file says about itself.

SentencePiece tells nobody what kind of pieces it loaded or what it does to text before it
cuts it, and it takes a file that was cut off between two pieces for a whole one. Its files
are a list of fields, each a number followed by a value; the few that matter are read here.
"""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum

from unisono.errors import DataError

# Numbers of fields and kinds of values, as SentencePiece and Protocol Buffers define them.
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_TEXT, _SCORE, _KIND = 1, 2, 3
_MODEL_TYPE, _SPACE_AS_SUFFIX = 3, 24
_RULES, _DUMMY_PREFIX, _ESCAPE_SPACES = 2, 3, 5
_UNIGRAM, _BPE = 1, 2
_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

Value = int | bytes


class Kind(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # never found in text, and nothing when it is written
    SYMBOL = 4  # "user defined": found in text before anything else, and never cut
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """A piece of a model. Of two merges that are possible, the higher score is made first."""

    text: str
    score: float
    kind: Kind


@dataclass(frozen=True)
class ModelFile:
    """How a model cuts text. `plain` says that it takes the text as it is, only with a mark
    for each space and one before the first word.
    """

    byte_pairs: bool
    plain: bool
    spaces_behind: bool


def read_model_file(model: bytes, where: str, fix: str) -> ModelFile:
    """Read what `model` says; an error if it is not whole."""
    try:
        fields = dict(_fields(model))
        trainer = dict(_fields(_part(fields, _TRAINER)))
        normalizer = dict(_fields(_part(fields, _NORMALIZER)))
    except (IndexError, KeyError, ValueError) as error:
        what = "the model of pieces is cut off or damaged"
        raise DataError(what, where=where, fix=fix) from error
    return ModelFile(
        byte_pairs=trainer.get(_MODEL_TYPE, _UNIGRAM) == _BPE,
        spaces_behind=bool(trainer.get(_SPACE_AS_SUFFIX, 0)),
        plain=not normalizer.get(_RULES)
        and bool(normalizer.get(_DUMMY_PREFIX, 1))
        and bool(normalizer.get(_ESCAPE_SPACES, 1))
        and not trainer.get(_SPACE_AS_SUFFIX, 0),
    )


def read_pieces(model: bytes) -> list[Piece]:
    """Return the pieces of a model that was found to be whole, by their own ids."""
    return [
        _piece(value)
        for number, value in _fields(model)
        if number == _PIECE and isinstance(value, bytes)
    ]


def with_controls(model: bytes, names: Collection[str]) -> bytes:
    """Return the model with its symbols called `names` as control pieces.

    Then SentencePiece takes what looks like them in a text for text, and writes nothing for
    them.
    """
    parts = []
    for number, value, raw in _slices(model):
        if number == _PIECE and isinstance(value, bytes) and _piece(value).text in names:
            others = [part for field, _, part in _slices(value) if field != _KIND]
            entry = b"".join([*others, bytes([_KIND << 3 | _NUMBER, Kind.CONTROL])])
            raw = bytes([_PIECE << 3 | _BYTES]) + _written(len(entry)) + entry
        parts.append(raw)
    return b"".join(parts)


def _piece(entry: bytes) -> Piece:
    fields = dict(_fields(entry))
    text, score, kind = fields[_TEXT], fields.get(_SCORE), fields.get(_KIND, Kind.NORMAL)
    return Piece(
        text.decode("utf-8") if isinstance(text, bytes) else "",
        struct.unpack("<f", score)[0] if isinstance(score, bytes) else 0.0,
        Kind(kind) if isinstance(kind, int) else Kind.NORMAL,
    )


def _part(fields: dict[int, Value], number: int) -> bytes:
    part = fields[number]
    if not isinstance(part, bytes):
        raise ValueError(f"field {number} is a number")  # noqa: TRY004 — the file is wrong
    return part


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field; of one that is repeated, every time."""
    return ((number, value) for number, value, _ in _slices(message))


def _slices(message: bytes) -> Iterator[tuple[int, Value, bytes]]:
    """Yield number, value and all bytes of each field."""
    place = 0
    while place < len(message):
        start = place
        key, place = _number(message, place)
        kind = key & 7
        if kind == _NUMBER:
            value, place = _number(message, place)
            yield key >> 3, value, message[start:place]
            continue
        if kind == _BYTES:
            size, place = _number(message, place)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"value of kind {kind}")
        end = place + size
        if end > len(message):
            raise ValueError("the last value is cut off")
        yield key >> 3, message[place:end], message[start:end]
        place = end


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at `place`, seven bits a byte, the lowest first, and what follows."""
    value = shift = 0
    while message[place] & 0x80:
        value |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return value | message[place] << shift, place + 1


def _written(number: int) -> bytes:
    """Return a number as `_number` reads it."""
    low = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([*(part | 0x80 for part in low[:-1]), low[-1]])
