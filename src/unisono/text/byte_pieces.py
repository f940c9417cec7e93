"""A tokenizer that needs no learning: one piece per byte of UTF-8."""

from collections.abc import Mapping, Sequence

from unisono.text.tokenizer import END_ID

_FIRST_BYTE = END_ID + 1


class BytePieces:
    """Every byte is a piece. For tests: long sequences, but nothing is ever unknown."""

    kind = "bytes"
    size = _FIRST_BYTE + 256
    encodes_words_alone = False  # the space between words is a piece
    tags: Mapping[str, int] = {}
    model = b"one piece per byte of UTF-8\n"

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[_FIRST_BYTE + byte for byte in line.encode("utf-8")] for line in lines]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return [
            bytes(i - _FIRST_BYTE for i in line if i >= _FIRST_BYTE).decode("utf-8", "replace")
            for line in ids
        ]
