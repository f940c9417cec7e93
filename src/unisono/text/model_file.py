"""What a SentencePiece model file says about itself.

SentencePiece tells nobody what kind of pieces it loaded or what it does to text before it
cuts it, and it takes a file that was cut off between two pieces for a whole one. Its files
are a list of fields, each a number followed by a value; the few that matter are read here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from unisono.errors import DataError

# Numbers of fields and kinds of values, as SentencePiece and Protocol Buffers define them.
_TRAINER, _NORMALIZER = 2, 3
_MODEL_TYPE, _SPACE_AS_SUFFIX = 3, 24
_RULES, _DUMMY_PREFIX, _ESCAPE_SPACES = 2, 3, 5
_UNIGRAM, _BPE = 1, 2
_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

Value = int | bytes


@dataclass(frozen=True)
class ModelFile:
    """How a model cuts text. `plain` says that it takes the text as it is, only with a mark
    for each space and one before the first word.
    """

    byte_pairs: bool
    plain: bool


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
        plain=not normalizer.get(_RULES)
        and bool(normalizer.get(_DUMMY_PREFIX, 1))
        and bool(normalizer.get(_ESCAPE_SPACES, 1))
        and not trainer.get(_SPACE_AS_SUFFIX, 0),
    )


def _part(fields: dict[int, Value], number: int) -> bytes:
    part = fields[number]
    if not isinstance(part, bytes):
        raise ValueError(f"field {number} is a number")  # noqa: TRY004 — the file is wrong
    return part


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field; of one that is repeated, every time."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        kind = key & 7
        if kind == _NUMBER:
            value, place = _number(message, place)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, place = _number(message, place)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"value of kind {kind}")
        if place + size > len(message):
            raise ValueError("the last value is cut off")
        yield key >> 3, message[place : place + size]
        place += size


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at `place`, seven bits a byte, the lowest first, and what follows."""
    value = shift = 0
    while message[place] & 0x80:
        value |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return value | message[place] << shift, place + 1
