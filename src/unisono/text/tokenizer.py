"""The protocol of tokenizers, and the four special ids that all of them share."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

PADDING_ID = 0
UNKNOWN_ID = 1
BEGIN_ID = 2
END_ID = 3


class Tokenizer(Protocol):
    """Turns normalised lines into ids of pieces and back.

    Ids lie in `range(size)`. Encoding adds neither begin nor end; decoding skips padding,
    begin and end.
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

    @property
    def encodes_words_alone(self) -> bool:
        """Say whether encoding a line is the same as encoding its words one by one."""

    @property
    def tags(self) -> Mapping[str, int]:
        """Return the ids of the tags; `encode` never produces them."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line."""

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the line of each sequence of ids."""


SHARED_KIND = "sentencepiece_shared"  # two piece models whose ids are those of one vocabulary


def has_one_model(kind: str, *, joint: bool) -> bool:
    """Say whether one model of pieces serves both languages."""
    return joint and kind != SHARED_KIND


def pieces_files(*, joint: bool) -> tuple[str, str]:
    """Return the names of the files of the source's and the target's tokenizer."""
    if joint:
        return "pieces.model", "pieces.model"
    return "pieces.source.model", "pieces.target.model"


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of the two languages: the same object twice if they share it."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @property
    def kind(self) -> str:
        return self.target.kind

    @property
    def source_vocabulary(self) -> int:
        """Return the size of the source's own vocabulary, or 0 if it shares the target's."""
        return 0 if self.joint or self.kind == SHARED_KIND else self.source.size

    @property
    def fingerprint(self) -> str:
        """Return one hash of all pieces: the same pieces mean the same ids."""
        found = hashlib.sha256(self.kind.encode())
        for name, content in sorted(self.files.items()):
            found.update(f"\n{name} {len(content)}\n".encode() + content)
        return found.hexdigest()

    @property
    def files(self) -> dict[str, bytes]:
        """Return the files, by name, from which `load_tokenizers` builds the same again."""
        names = pieces_files(joint=self.joint)
        return dict(zip(names, (self.source.model, self.target.model), strict=True))
