"""The files of a corpus directory, and `manifest.json`, which describes them."""

import hashlib
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from unisono.atomic import Written
from unisono.errors import DataError
from unisono.small_files import PARSER_ERRORS, read_bytes, reason
from unisono.text.tokenizer import has_one_model

Side = Literal["source", "target"]

FORMAT = 1
MANIFEST = "manifest.json"
SIDES: tuple[Side, Side] = ("source", "target")
OFFSET_TYPE = np.dtype("<i8")
HASH_TYPE = np.dtype("<u8")


def ids_file(block: str, side: Side) -> str:
    """Return the name of the file with the ids of a block, sentence after sentence."""
    return f"{block}.{side}.ids"


def offsets_file(block: str, side: Side) -> str:
    """Return the name of the file with the start of each sentence, and the end of the last."""
    return f"{block}.{side}.offsets"


def hashes_file(block: str) -> str:
    """Return the name of the file with a hash for each pair of a training block."""
    return f"{block}.hashes"


def text_file(split: str, side: Side) -> str:
    """Return the name of the file with the original lines of a held-out set."""
    return f"{split}.{side}.txt"


def id_type(vocabulary: int) -> np.dtype[Any]:
    """Return the smallest type that holds every id: 2 bytes up to 65,536 pieces, else 4."""
    return np.dtype("<u2") if vocabulary <= 1 << 16 else np.dtype("<u4")


class TextFile(msgspec.Struct, frozen=True, kw_only=True):
    """An input file. `bytes` and `sha256` describe the file on disk, compressed or not;
    `text_bytes` the text in it.
    """

    name: str
    bytes: int
    text_bytes: int
    lines: int
    sha256: str


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """Two text files, line by line translations of each other.

    If `columns` names two columns of one file, the file is recorded on both sides, but its
    bytes only on the source side. `tag` is added in front of all source lines.
    """

    split: str
    source: TextFile
    target: TextFile
    columns: list[int] = []
    tag: str = ""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """The prepared pairs of one input: `pairs` of `read_pairs` are left.

    `text_bytes` counts the kept text of both sides. `weight` is how often an epoch uses each
    pair, `tag` the symbol in front of each source sentence. `source_lengths` is a histogram of
    pieces per sentence: 1 to 10, 11 to 20 and so on. `source_unknown` of the tokens are
    unknown.
    """

    name: str
    pairs: int
    source_tokens: int
    target_tokens: int
    text_bytes: int = 0
    read_pairs: int = 0
    weight: float = 1.0
    tag: str = ""
    source_unknown: int = 0
    target_unknown: int = 0
    source_lengths: list[int] = []
    target_lengths: list[int] = []


class SplitSize(msgspec.Struct, frozen=True, kw_only=True):
    """The training, validation or test set: its blocks and their sums."""

    pairs: int
    source_tokens: int
    target_tokens: int
    text_bytes: int = 0
    read_pairs: int = 0
    source_unknown: int = 0
    target_unknown: int = 0
    source_lengths: list[int] = []
    target_lengths: list[int] = []
    blocks: list[Block]


class Dropped(msgspec.Struct, frozen=True):
    """How many pairs were dropped for one reason, and the first few of them, clipped."""

    count: int
    examples: list[tuple[str, str]]


class Learning(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of the vocabulary: learnt by "bpe" or "unigram" from a sample of `lines`
    lines, or "given" as model files with the hashes `models`, or "like" that of another model,
    whose pieces have one hash together.
    """

    algorithm: str = ""
    lines: int = 0
    models: list[str] = []


class CorpusManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a corpus but the text itself.

    `source_vocabulary` is 0 if both languages share the pieces of `vocabulary`; otherwise
    `vocabulary` is the target's. `read_pairs` is the sum of the pairs of all splits and of the
    dropped ones. `first_pairs` are the first of the training set as text, clipped. `tags` are
    the symbols that source lines may begin with. `kept_overlap` counts training pairs that
    reveal a held-out pair and were kept nevertheless; -1 in corpora that did not count them.
    """

    format: int = FORMAT
    source_language: str
    target_language: str
    vocabulary: int
    source_vocabulary: int = 0
    tokenizer: str
    tags: list[str] = []
    created_with: str
    inputs: list[Input] = []
    splits: dict[str, SplitSize]
    read_pairs: int
    dropped: dict[str, Dropped] = {}
    kept_overlap: int = -1
    learning: Learning = Learning()
    first_pairs: list[tuple[str, str]] = []
    settings: dict[str, Any] = {}
    files: dict[str, Written] = {}
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if "train" not in self.splits:
            raise ValueError("it has no training set")

    @property
    def read_training_pairs(self) -> int:
        """Return how many pairs the training text had; for old corpora, all text."""
        train = self.splits["train"]
        known = all(block.read_pairs for block in train.blocks)
        return (known and train.read_pairs) or self.read_pairs

    def dropped_from(self, *, training: bool) -> dict[str, Dropped]:
        """Return what was dropped from the training text or from the held-out sets, by
        frequency.
        """
        by_count = sorted(self.dropped.items(), key=lambda item: -item[1].count)
        return {
            reason: dropped
            for reason, dropped in by_count
            if reason.endswith((" in valid", " in test")) != training
        }

    @property
    def joint(self) -> bool:
        """Say whether one model of pieces serves both languages."""
        return has_one_model(self.tokenizer, joint=not self.source_vocabulary)

    def vocabulary_of(self, side: Side) -> int:
        """Return the number of pieces of one language."""
        return (side == "source" and self.source_vocabulary) or self.vocabulary


def size_of_split(blocks: list[Block]) -> SplitSize:
    """Add up the blocks of a split."""
    return SplitSize(
        pairs=sum(block.pairs for block in blocks),
        source_tokens=sum(block.source_tokens for block in blocks),
        target_tokens=sum(block.target_tokens for block in blocks),
        text_bytes=sum(block.text_bytes for block in blocks),
        read_pairs=sum(block.read_pairs for block in blocks),
        source_unknown=sum(block.source_unknown for block in blocks),
        target_unknown=sum(block.target_unknown for block in blocks),
        source_lengths=_added(block.source_lengths for block in blocks),
        target_lengths=_added(block.target_lengths for block in blocks),
        blocks=blocks,
    )


def _added(counts: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip_longest(*counts, fillvalue=0)]


def fingerprint_of(manifest: CorpusManifest) -> str:
    """Return one hash of all files and weights: it changes with what a model learns from."""
    lines = [f"{file.sha256}  {name}\n" for name, file in sorted(manifest.files.items())]
    for split in manifest.splits.values():
        weighted = (block for block in split.blocks if block.weight != 1.0)
        lines += [f"weight {block.weight!r}  {block.name}\n" for block in weighted]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def fingerprinted(manifest: CorpusManifest) -> CorpusManifest:
    """Return `manifest` with its fingerprint."""
    return msgspec.structs.replace(manifest, fingerprint=fingerprint_of(manifest))


def manifest_bytes(manifest: CorpusManifest) -> bytes:
    """Return `manifest` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(directory: Path) -> CorpusManifest:
    """Read the manifest of the corpus in `directory`."""
    path = directory / MANIFEST
    if not path.is_file():
        there = (
            f"is not a corpus: it has no {MANIFEST}" if directory.exists() else "does not exist"
        )
        raise DataError(
            f"the corpus directory {directory} {there}",
            where=str(directory),
            fix="run `unisono prepare` with the same settings first",
        )
    again = "prepare the corpus again in another directory"
    try:
        data = read_bytes(path)
        version = msgspec.json.decode(data, type=_Version).format
        if version != FORMAT:
            raise DataError(
                f"the corpus has format {version}; this version reads format {FORMAT}",
                where=str(path),
                fix=again,
            )
        return msgspec.json.decode(data, type=CorpusManifest)
    except (OSError, *PARSER_ERRORS) as error:
        what = f"damaged manifest: {reason(error)}"
        raise DataError(what, where=str(path), fix=again) from error


class _Version(msgspec.Struct):
    format: int
