"""Load tokenizers by kind: SentencePiece models, or bytes, which need no learning."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from unisono.errors import DataError, suggest
from unisono.small_files import read_bytes, reason
from unisono.text.sentence_pieces import SentencePieces
from unisono.text.tokenizer import END_ID, SHARED_KIND, Tokenizer, Tokenizers, pieces_files

_FIRST_BYTE = END_ID + 1


class BytePieces:
    """One piece per byte of UTF-8. For tests: sequences are long, but nothing is unknown."""

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


KINDS = (SentencePieces.kind, SHARED_KIND, BytePieces.kind)


def load_tokenizer(kind: str, path: Path, tags: Sequence[str] = ()) -> Tokenizer:
    """Load the tokenizer of this kind from its model file."""
    if kind not in KINDS:
        raise DataError(
            f"`{kind}` is not a kind of tokenizer", where=str(path), fix=suggest(kind, KINDS)
        )
    try:
        model = read_bytes(path)
    except OSError as error:
        raise DataError(
            f"the model of pieces cannot be read: {reason(error)}",
            where=str(path),
            fix="prepare the corpus again, or restore the file from a copy",
        ) from error
    if kind == BytePieces.kind:
        return BytePieces()
    return SentencePieces(model, str(path), tags, shared=kind == SHARED_KIND)


def load_tokenizers(
    kind: str, directory: Path, *, joint: bool, tags: Sequence[str] = ()
) -> Tokenizers:
    """Load the tokenizers of this kind from the files in `directory`; the source has `tags`."""
    source_file, target_file = pieces_files(joint=joint)
    source = load_tokenizer(kind, directory / source_file, tags)
    target = source if joint else load_tokenizer(kind, directory / target_file)
    return Tokenizers(source, target)
