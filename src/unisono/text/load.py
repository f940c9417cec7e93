"""Tokenizers by name."""

from collections.abc import Sequence
from pathlib import Path

from unisono.errors import DataError, suggest
from unisono.text.byte_pieces import BytePieces
from unisono.text.sentence_pieces import SentencePieces
from unisono.text.tokenizer import Tokenizer, Tokenizers, pieces_files

KINDS = (SentencePieces.kind, BytePieces.kind)


def load_tokenizer(kind: str, path: Path, tags: Sequence[str] = ()) -> Tokenizer:
    """Load the tokenizer of this kind from its model file."""
    if kind not in KINDS:
        raise DataError(
            f"`{kind}` is not a kind of tokenizer", where=str(path), fix=suggest(kind, KINDS)
        )
    try:
        model = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"the model of pieces cannot be read: {error.strerror}",
            where=str(path),
            fix="prepare the corpus again, or restore the file from a copy",
        ) from error
    if kind == BytePieces.kind:
        return BytePieces()
    return SentencePieces(model, str(path), tags)


def load_tokenizers(
    kind: str, directory: Path, *, joint: bool, tags: Sequence[str] = ()
) -> Tokenizers:
    """Load the tokenizers of this kind from the files in `directory`; the source has `tags`."""
    source_file, target_file = pieces_files(joint=joint)
    source = load_tokenizer(kind, directory / source_file, tags)
    target = source if joint else load_tokenizer(kind, directory / target_file)
    return Tokenizers(source, target)
