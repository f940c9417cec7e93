"""Write a corpus: blocks of ids, the original held-out text, and last the manifest."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono import __version__
from unisono.atomic import new_directory, written
from unisono.corpus.manifest import (
    HASH_TYPE,
    MANIFEST,
    OFFSET_TYPE,
    Block,
    CorpusManifest,
    Side,
    fingerprinted,
    hashes_file,
    id_type,
    ids_file,
    manifest_bytes,
    offsets_file,
    size_of_split,
    text_file,
)
from unisono.text.normalise import encode_source
from unisono.text.tokenizer import UNKNOWN_ID, Tokenizer, Tokenizers

Sentences = Sequence[Sequence[int]]

_LENGTHS_PER_COUNT = 10


@dataclass(frozen=True)
class Packed:
    """Sentences one after the other: ids in the type of the corpus, and their lengths."""

    ids: bytes
    lengths: NDArray[np.int64]


def pack_ids(sentences: Sentences, vocabulary: int) -> Packed:
    """Pack sentences of ids below `vocabulary`."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ids = np.fromiter(chain.from_iterable(sentences), id_type(vocabulary), int(lengths.sum()))
    return Packed(ids.tobytes(), lengths)


class BlockWriter:
    """Write the pairs of one block, batch by batch; a context manager.

    A `source_vocabulary` of 0 means that both sides share one. A `hashed` block, of training
    text, has one hash for each pair.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        vocabulary: int,
        source_vocabulary: int = 0,
        *,
        hashed: bool = False,
    ) -> None:
        self._name = name
        self._vocabularies = source_vocabulary or vocabulary, vocabulary
        self._source = _SideWriter(directory, name, "source", self._vocabularies[0])
        self._target = _SideWriter(directory, name, "target", self._vocabularies[1])
        self._hashes = (directory / hashes_file(name)).open("wb") if hashed else None
        self._text_bytes = 0

    def append(self, source: Sentences, target: Sentences, *, text_bytes: int = 0) -> None:
        """Append pairs: the ids of each sentence, without begin and end."""
        self.append_packed(
            pack_ids(source, self._vocabularies[0]),
            pack_ids(target, self._vocabularies[1]),
            text_bytes=text_bytes,
        )

    def append_packed(
        self,
        source: Packed,
        target: Packed,
        hashes: NDArray[np.uint64] | None = None,
        *,
        text_bytes: int = 0,
    ) -> None:
        self._source.append(source)
        self._target.append(target)
        if self._hashes is not None and hashes is not None:
            self._hashes.write(hashes.astype(HASH_TYPE, copy=False).tobytes())
        self._text_bytes += text_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as closing:  # close all of them, even if one fails on a full disk
            closing.callback(self._source.close)
            closing.callback(self._target.close)
            if self._hashes is not None:
                closing.callback(self._hashes.close)

    def record(self, *, read_pairs: int = 0, weight: float = 1.0, tag: str = "") -> Block:
        """Return the description of the block."""
        return Block(
            name=self._name,
            pairs=self._source.sentences,
            source_tokens=self._source.tokens,
            target_tokens=self._target.tokens,
            text_bytes=self._text_bytes,
            read_pairs=read_pairs or self._source.sentences,
            weight=weight,
            tag=tag,
            source_unknown=self._source.unknown,
            target_unknown=self._target.unknown,
            source_lengths=self._source.lengths.tolist(),
            target_lengths=self._target.lengths.tolist(),
        )


class _SideWriter:
    def __init__(self, directory: Path, block: str, side: Side, vocabulary: int) -> None:
        self.sentences = self.tokens = self.unknown = 0
        self.lengths: NDArray[np.int64] = np.zeros(0, np.int64)
        self._type = id_type(vocabulary)
        self._ids = (directory / ids_file(block, side)).open("wb")
        self._offsets = (directory / offsets_file(block, side)).open("wb")
        self._offsets.write(np.zeros(1, OFFSET_TYPE).tobytes())

    def append(self, packed: Packed) -> None:
        ends = self.tokens + np.cumsum(packed.lengths, dtype=OFFSET_TYPE)
        self._ids.write(packed.ids)
        self._offsets.write(ends.tobytes())
        self.sentences += len(ends)
        self.tokens = int(ends[-1]) if len(ends) else self.tokens
        ids = np.frombuffer(packed.ids, self._type)
        self.unknown += int(np.count_nonzero(ids == UNKNOWN_ID))
        self._count(packed.lengths)

    def _count(self, lengths: NDArray[np.int64]) -> None:
        counts = np.bincount(
            np.maximum(lengths - 1, 0) // _LENGTHS_PER_COUNT, minlength=len(self.lengths)
        )
        counts[: len(self.lengths)] += self.lengths
        self.lengths = counts

    def close(self) -> None:
        with self._ids, self._offsets:
            pass


def write_texts(
    directory: Path, split: str, source: Sequence[str], target: Sequence[str]
) -> None:
    """Write the original lines of a held-out set; they contain no line feed."""
    sides: tuple[tuple[Side, Sequence[str]], ...] = (("source", source), ("target", target))
    for side, lines in sides:
        text = "".join(f"{line}\n" for line in lines)
        (directory / text_file(split, side)).write_bytes(text.encode("utf-8"))


def seal(directory: Path, manifest: CorpusManifest) -> None:
    """Add every file in `directory` to `manifest` and write it, which completes the corpus."""
    files = {
        path.name: written(path)
        for path in sorted(directory.iterdir())
        if path.name != MANIFEST
    }
    complete = fingerprinted(msgspec.structs.replace(manifest, files=files))
    (directory / MANIFEST).write_bytes(manifest_bytes(complete))


def write_corpus(
    path: Path,
    tokenizer: Tokenizer | Tokenizers,
    splits: Mapping[str, Sequence[tuple[str, str]]],
    *,
    languages: tuple[str, str] = ("en", "de"),
) -> None:
    """Write pairs of text in memory as a corpus, without cleaning.

    `splits` has "train" and may have "valid" and "test".
    """
    both = tokenizer if isinstance(tokenizer, Tokenizers) else Tokenizers(tokenizer, tokenizer)
    vocabulary, source_vocabulary = both.target.size, both.source_vocabulary
    with new_directory(path) as directory:
        for name, content in both.files.items():
            (directory / name).write_bytes(content)
        sizes = {}
        for split, pairs in splits.items():
            source, target = [s for s, _ in pairs], [t for _, t in pairs]
            name = f"{split}.0"
            with BlockWriter(directory, name, vocabulary, source_vocabulary) as block:
                block.append(encode_source(both.source, source), both.target.encode(target))
            if split != "train":
                write_texts(directory, split, source, target)
            sizes[split] = size_of_split([block.record()])
        manifest = CorpusManifest(
            source_language=languages[0],
            target_language=languages[1],
            vocabulary=vocabulary,
            source_vocabulary=source_vocabulary,
            tokenizer=both.kind,
            tags=list(both.source.tags),
            created_with=__version__,
            splits=sizes,
            read_pairs=sum(size.pairs for size in sizes.values()),
        )
        seal(directory, manifest)
