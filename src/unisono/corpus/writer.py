"""Writing a corpus: blocks of ids, the original held-out text, and last the manifest."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono import __version__
from unisono.atomic import new_directory, written
from unisono.corpus.layout import (
    MANIFEST,
    OFFSET_TYPE,
    PIECES,
    Side,
    id_type,
    ids_file,
    offsets_file,
    text_file,
)
from unisono.corpus.manifest import (
    Block,
    Manifest,
    fingerprint_of,
    manifest_bytes,
    size_of_split,
)
from unisono.text.tokenizer import Tokenizer

Sentences = Sequence[Sequence[int]]


class BlockWriter:
    """Write the pairs of one block, batch by batch; a context manager."""

    def __init__(self, directory: Path, name: str, vocabulary: int) -> None:
        self._name = name
        self._source = _SideWriter(directory, name, "source", id_type(vocabulary))
        self._target = _SideWriter(directory, name, "target", id_type(vocabulary))
        self._text_bytes = 0

    def append(self, source: Sentences, target: Sentences, *, text_bytes: int = 0) -> None:
        """Write some pairs: the ids of each sentence, without begin and end."""
        self._source.append(source)
        self._target.append(target)
        self._text_bytes += text_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.close()
        self._target.close()

    def record(self) -> Block:
        """Return what has been written."""
        return Block(
            name=self._name,
            pairs=self._source.sentences,
            source_tokens=self._source.tokens,
            target_tokens=self._target.tokens,
            text_bytes=self._text_bytes,
        )


class _SideWriter:
    def __init__(self, directory: Path, block: str, side: Side, ids: np.dtype[Any]) -> None:
        self.sentences = 0
        self.tokens = 0
        self._type = ids
        self._ids = (directory / ids_file(block, side)).open("wb")
        self._offsets = (directory / offsets_file(block, side)).open("wb")
        self._offsets.write(np.zeros(1, OFFSET_TYPE).tobytes())

    def append(self, sentences: Sentences) -> None:
        lengths = np.fromiter(map(len, sentences), OFFSET_TYPE, len(sentences))
        ends: NDArray[np.int64] = self.tokens + np.cumsum(lengths, dtype=OFFSET_TYPE)
        added = int(lengths.sum())
        ids = np.fromiter(chain.from_iterable(sentences), self._type, added)
        self._ids.write(ids.tobytes())
        self._offsets.write(ends.tobytes())
        self.sentences += len(sentences)
        self.tokens += added

    def close(self) -> None:
        self._ids.close()
        self._offsets.close()


def write_texts(
    directory: Path, split: str, source: Sequence[str], target: Sequence[str]
) -> None:
    """Write the original lines of a held-out set; they hold no line feed."""
    sides: tuple[tuple[Side, Sequence[str]], ...] = (("source", source), ("target", target))
    for side, lines in sides:
        text = "".join(f"{line}\n" for line in lines)
        (directory / text_file(split, side)).write_bytes(text.encode("utf-8"))


def seal(directory: Path, manifest: Manifest) -> None:
    """Complete `manifest` with every file in `directory` and write it: now it is a corpus."""
    files = {
        path.name: written(path)
        for path in sorted(directory.iterdir())
        if path.name != MANIFEST
    }
    complete = msgspec.structs.replace(manifest, files=files, fingerprint=fingerprint_of(files))
    (directory / MANIFEST).write_bytes(manifest_bytes(complete))


def write_corpus(
    path: Path,
    tokenizer: Tokenizer,
    splits: Mapping[str, Sequence[tuple[str, str]]],
    *,
    languages: tuple[str, str] = ("en", "de"),
) -> None:
    """Write pairs of text that are in memory as a corpus, as they are, without cleaning.

    `splits` has "train" and may have "valid" and "test".
    """
    with new_directory(path) as directory:
        (directory / PIECES).write_bytes(tokenizer.model)
        sizes = {}
        for split, pairs in splits.items():
            source, target = [s for s, _ in pairs], [t for _, t in pairs]
            with BlockWriter(directory, f"{split}.0", tokenizer.size) as block:
                block.append(tokenizer.encode(source), tokenizer.encode(target))
            if split != "train":
                write_texts(directory, split, source, target)
            sizes[split] = size_of_split([block.record()])
        manifest = Manifest(
            source_language=languages[0],
            target_language=languages[1],
            vocabulary=tokenizer.size,
            tokenizer=tokenizer.kind,
            created_with=__version__,
            splits=sizes,
            read_pairs=sum(size.pairs for size in sizes.values()),
        )
        seal(directory, manifest)
