"""Read a corpus, memory-mapped, so that opening is cheap and processes share the pages.

Also compares the settings that a corpus was made with to other settings.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono.atomic import Written, difference
from unisono.corpus.manifest import (
    OFFSET_TYPE,
    SIDES,
    Block,
    CorpusManifest,
    Side,
    fingerprint_of,
    id_type,
    ids_file,
    offsets_file,
    read_manifest,
    text_file,
)
from unisono.errors import DataError, suggest
from unisono.text.inherited import LIKE
from unisono.text.load import load_tokenizers
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers, pieces_files

# These settings do not change a corpus.
_IRRELEVANT = {"directory", "invalid"}
# Of these files the manifest records the name here and the hash elsewhere.
_MODEL_FILES = {"pieces_model", "target_pieces_model"}
# How pieces are learnt, which is irrelevant if a model is given.
_LEARNING = {"vocabulary", "pieces", "byte_fallback", "character_coverage", "learning_lines"}


# What a corpus has from the model whose pieces it inherited, whatever the settings say.
_INHERITED = {"joint", "tags", "plain_quotes", "lowercase"}


@dataclass(frozen=True)
class SettingDifference:
    """A setting that had another value when the corpus was made."""

    name: str
    then: Any
    now: Any


def recorded_settings(settings: msgspec.Struct) -> dict[str, Any]:
    """Return the settings that a manifest records."""
    values = _as_recorded(settings)
    del values["directory"]
    return values | {name: Path(values[name]).name for name in _MODEL_FILES & values.keys()}


def differences(
    manifest: CorpusManifest, settings: msgspec.Struct, languages: tuple[str, str]
) -> Iterator[SettingDifference]:
    """Yield the settings that differ from those the corpus was made with.

    A setting that the manifest does not have counts as its current default. A manifest without
    settings was not made by `prepare`, and only its languages count.
    """
    now = recorded_settings(settings)
    then = _defaults(settings) | manifest.settings if manifest.settings else now
    names = ("source_language", "target_language")
    now |= dict(zip(names, languages, strict=True))
    then = then | {name: getattr(manifest, name) for name in names}
    given = now.get("pieces_model") and then.get("pieces_model")
    skipped = _IRRELEVANT | (_LEARNING if given else set())
    if manifest.learning.algorithm == LIKE:
        skipped |= _LEARNING | _MODEL_FILES | _INHERITED
    for name in sorted((now.keys() | then.keys()) - skipped):
        if now.get(name) != then.get(name):
            yield SettingDifference(name, then.get(name), now.get(name))


def _defaults(settings: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.fields(settings)
    values = {field.name: field.default for field in fields if not field.required}
    return _as_recorded(values)


def _as_recorded(values: object) -> dict[str, Any]:
    """Return `values` as a manifest stores them."""
    return msgspec.json.decode(msgspec.json.encode(values), type=dict[str, Any])


_PREPARE_AGAIN = "remove the directory and prepare the corpus again"


class Corpus:
    """An open corpus directory that is complete."""

    def __init__(self, path: Path, manifest: CorpusManifest) -> None:
        self.path = path
        self.manifest = manifest

    @property
    def fingerprint(self) -> str:
        return self.manifest.fingerprint

    def tokenizers(self) -> Tokenizers:
        """Load the tokenizers the corpus was encoded with."""
        manifest = self.manifest
        return load_tokenizers(
            manifest.tokenizer, self.path, joint=manifest.joint, tags=manifest.tags
        )

    def normalisation(self) -> Normalisation:
        chosen = self.manifest.settings
        return Normalisation(
            plain_quotes=bool(chosen.get("plain_quotes", False)),
            lowercase=bool(chosen.get("lowercase", False)),
        )

    def has(self, split: str) -> bool:
        return split in self.manifest.splits

    def split(self, name: str) -> "Split":
        """Return "train", "valid" or "test"."""
        if not self.has(name):
            raise DataError(
                f"the corpus has no {name} set",
                where=str(self.path),
                fix=f"name its files in [data.{name}] and prepare the corpus again; "
                + suggest(name, self.manifest.splits),
            )
        return Split(self.path, name, self.manifest)


class Split:
    """The pairs of one split, numbered from 0 across all its blocks."""

    def __init__(self, path: Path, name: str, manifest: CorpusManifest) -> None:
        self.name = name
        self.blocks = manifest.splits[name].blocks
        self._path = path
        self._source = _Sentences(path, self.blocks, "source", manifest)
        self._target = _Sentences(path, self.blocks, "target", manifest)
        self.source_lengths = self._source.lengths()
        self.target_lengths = self._target.lengths()

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> NDArray[Any]:
        """Return the ids of a source sentence, without begin and end: a view of the file."""
        return self._source[index]

    def target(self, index: int) -> NDArray[Any]:
        """Return the ids of a target sentence, without begin and end: a view of the file."""
        return self._target[index]

    def pairs(self, indices: Iterable[int]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Return the source and the target sentences of some pairs."""
        chosen = [int(index) for index in indices]
        return [self._source[i] for i in chosen], [self._target[i] for i in chosen]

    def source_text(self) -> list[str]:
        """Return the original source lines of a held-out set, one per pair."""
        return self._text("source")

    def target_text(self) -> list[str]:
        """Return the original target lines of a held-out set, one per pair."""
        return self._text("target")

    def _text(self, side: Side) -> list[str]:
        path = self._path / text_file(self.name, side)
        if not path.is_file():
            raise DataError(
                f"the original text of the {self.name} set is missing from the corpus",
                where=str(path),
                fix='only "valid" and "test" keep their text',
            )
        # Only a line feed ends a line: read_text and splitlines split at others, too.
        lines = path.read_bytes().decode("utf-8").split("\n")[:-1]
        if len(lines) != len(self):
            what = f"{len(lines)} lines of text for {len(self)} pairs"
            raise DataError(what, where=str(path), fix=_PREPARE_AGAIN)
        return lines


class _Sentences:
    """One side of a split."""

    def __init__(
        self, path: Path, blocks: list[Block], side: Side, manifest: CorpusManifest
    ) -> None:
        ids = id_type(manifest.vocabulary_of(side))
        self._offsets = [
            _array(path / offsets_file(block.name, side), OFFSET_TYPE) for block in blocks
        ]
        self._ids = [_array(path / ids_file(block.name, side), ids) for block in blocks]
        self._starts = list(accumulate((block.pairs for block in blocks), initial=0))

    def lengths(self) -> NDArray[np.int32]:
        empty = np.empty(0, np.int32)
        return np.concatenate([empty, *map(np.diff, self._offsets)]).astype(np.int32)

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not 0 <= index < self._starts[-1]:
            raise IndexError(f"pair {index} of {self._starts[-1]}")
        block = bisect_right(self._starts, index) - 1
        offsets, within = self._offsets[block], index - self._starts[block]
        return self._ids[block][offsets[within] : offsets[within + 1]]


def _array(path: Path, kind: np.dtype[Any]) -> NDArray[Any]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, kind)
    # A plain array over the mapping: slicing a memmap itself is several times slower.
    return np.asarray(np.memmap(path, kind, mode="r"))


def open_corpus(path: Path, *, verify: bool = False) -> Corpus:
    """Open the corpus in the directory `path`; check that its files have the recorded sizes.

    With `verify`, also read every file and compare its hash.
    """
    manifest = read_manifest(path)
    for name, file in manifest.files.items():
        check_file(path / name, file, content=verify)
    _check_manifest(path, manifest)
    return Corpus(path, manifest)


def check_file(path: Path, expected: Written, *, content: bool = True) -> None:
    """Raise a DataError if a file of a corpus is not what its manifest says."""
    if how := difference(path, expected, content=content):
        what = f"{path.name} is not the file this corpus was made with: {how}"
        raise DataError(what, where=str(path), fix=_PREPARE_AGAIN)


def _check_manifest(path: Path, manifest: CorpusManifest) -> None:
    if fingerprint_of(manifest) != manifest.fingerprint:
        what = "the manifest does not match its fingerprint"
        raise DataError(what, where=str(path), fix=_PREPARE_AGAIN)
    files = manifest.files
    pieces = pieces_files(joint=manifest.joint)
    expected = {name: files[name].bytes if name in files else -1 for name in pieces}
    for split in manifest.splits.values():
        for block in split.blocks:
            for side in SIDES:
                tokens = block.source_tokens if side == "source" else block.target_tokens
                ids = tokens * id_type(manifest.vocabulary_of(side)).itemsize
                expected[ids_file(block.name, side)] = ids
                offsets = (block.pairs + 1) * OFFSET_TYPE.itemsize
                expected[offsets_file(block.name, side)] = offsets
    for name, size in expected.items():
        if name not in files or files[name].bytes != size:
            what = f"the manifest contradicts itself about {name}"
            raise DataError(what, where=str(path), fix=_PREPARE_AGAIN)
