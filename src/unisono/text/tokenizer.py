"""What every tokenizer promises, and the four ids all of them share."""

from collections.abc import Sequence
from typing import Protocol

PADDING_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3


class Tokenizer(Protocol):
    """Turns normalised lines into ids of pieces and back.

    Ids lie in `range(size)`. Encoding adds neither begin nor end; decoding passes over
    padding, begin and end.
    """

    @property
    def kind(self) -> str:
        """Name the kind, as `load_tokenizer` knows it."""

    @property
    def size(self) -> int:
        """Return the number of pieces, the four special ones included."""

    @property
    def model(self) -> bytes:
        """Return what `load_tokenizer` needs to build the same tokenizer again."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line."""

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the line of each sequence of ids."""
