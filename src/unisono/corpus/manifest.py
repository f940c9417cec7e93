"""What a corpus says about itself: `manifest.json`, written last."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from unisono.atomic import Written
from unisono.corpus.layout import FORMAT, MANIFEST
from unisono.errors import DataError


class TextFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file the corpus was made from. `bytes` and `sha256` are of the file as it lies there,
    compressed or not; `text_bytes` is the text in it.
    """

    name: str
    bytes: int
    text_bytes: int
    lines: int
    sha256: str


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """Two text files, line by line translations of each other."""

    split: str
    source: TextFile
    target: TextFile


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """What one pair of inputs became. `text_bytes` counts the kept text of both sides."""

    name: str
    pairs: int
    source_tokens: int
    target_tokens: int
    text_bytes: int = 0


class SplitSize(msgspec.Struct, frozen=True, kw_only=True):
    """The training, validation or test set: its blocks and their sums."""

    pairs: int
    source_tokens: int
    target_tokens: int
    text_bytes: int = 0
    blocks: list[Block]


class Dropped(msgspec.Struct, frozen=True):
    """How many pairs went for one reason, and the first few of them, clipped."""

    count: int
    examples: list[tuple[str, str]]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a corpus but the text itself.

    `read_pairs` is the sum of the pairs of all splits and of all that were dropped.
    """

    format: int = FORMAT
    source_language: str
    target_language: str
    vocabulary: int
    tokenizer: str
    created_with: str
    inputs: list[Input] = []
    splits: dict[str, SplitSize]
    read_pairs: int
    dropped: dict[str, Dropped] = {}
    settings: dict[str, Any] = {}
    files: dict[str, Written] = {}
    fingerprint: str = ""


def size_of_split(blocks: list[Block]) -> SplitSize:
    """Add up the blocks of a split."""
    return SplitSize(
        pairs=sum(block.pairs for block in blocks),
        source_tokens=sum(block.source_tokens for block in blocks),
        target_tokens=sum(block.target_tokens for block in blocks),
        text_bytes=sum(block.text_bytes for block in blocks),
        blocks=blocks,
    )


def fingerprint_of(files: dict[str, Written]) -> str:
    """Return one hash for all files: it changes when any name or content does."""
    lines = (f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return `manifest` as JSON a person can read too."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of the corpus in `directory`."""
    path = directory / MANIFEST
    if not path.is_file():
        there = (
            f"is not a corpus: it has no {MANIFEST}" if directory.exists() else "is not there"
        )
        raise DataError(
            f"the corpus directory {directory} {there}",
            where=str(directory),
            fix="run `unisono prepare` with the same settings first",
        )
    again = "prepare the corpus again in another directory"
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Version).format
        if version != FORMAT:
            raise DataError(
                f"the corpus has format {version}; this version reads format {FORMAT}",
                where=str(path),
                fix=again,
            )
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"damaged manifest: {error}", where=str(path), fix=again) from error


class _Version(msgspec.Struct):
    format: int
