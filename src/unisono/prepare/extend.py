"""Adding sources to a corpus that is there: what it has stays as it is.

The new blocks are made beside the others and become part of the corpus with the manifest
that names them, which is replaced last and at once.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from unisono.atomic import TEMPORARY, sync, write_bytes, written
from unisono.corpus.manifest import (
    HASH_TYPE,
    MANIFEST,
    Block,
    CorpusManifest,
    fingerprinted,
    hashes_file,
    manifest_bytes,
    size_of_split,
)
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.prepare.first_pass.clean_text import CleanText, gather
from unisono.prepare.first_pass.drops import Drops
from unisono.prepare.first_pass.filters import PairFilter
from unisono.prepare.first_pass.held_out import HeldOut, read_held_out
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode_chunk import Pieces
from unisono.prepare.second_pass.vocabulary import check_train
from unisono.prepare.second_pass.write import Encoding
from unisono.prepare.space import check_room
from unisono.prepare.up_to_date import CorpusComparison


def reweight(assignment: PrepareJob, manifest: CorpusManifest) -> None:
    """Give the blocks of a corpus the weights that the settings say now."""
    blocks = _reweighted(assignment, manifest.splits["train"].blocks)
    splits = manifest.splits | {"train": size_of_split(blocks)}
    changed = msgspec.structs.replace(manifest, splits=splits)
    write_bytes(assignment.path / MANIFEST, manifest_bytes(fingerprinted(changed)))


def add_sources(
    assignment: PrepareJob, comparison: CorpusComparison
) -> Generator[PrepareProgress, None, None]:
    """Clean and encode the sources that are new, with the pieces of the corpus."""
    path, manifest = assignment.path, comparison.manifest
    known = [_hashes(path, block) for block in manifest.splits["train"].blocks]
    check_room(path, comparison.added, assignment.settings)
    drops = Drops()
    drops.add_all(manifest.dropped)
    with _beside(path) as directory:
        spool = directory / "spool"
        spool.mkdir()
        sets = [read_held_out(raw, assignment.normalise) for raw in assignment.held_out]
        held_out = HeldOut((pair for held in sets for pair in held.pairs), assignment.tags)
        judge = PairFilter(assignment, held_out, spool)
        texts = yield from gather(assignment, comparison.added, judge, drops, known)
        tokenizers = open_corpus(path).tokenizers()
        encoding = Encoding(tokenizers, directory, drops)
        tags = tuple(manifest.tags)
        pieces = Pieces(manifest.tokenizer, path, manifest.joint, tags)
        yield from encoding.write_train(texts, assignment, pieces)
        added = encoding.blocks["train"]
        check_train(size_of_split(added), encoding.unknown, manifest.learning, added=True)
        shutil.rmtree(spool)
        _join(assignment, manifest, directory, texts, added, drops)


def _hashes(path: Path, block: Block) -> NDArray[np.uint64]:
    file = path / hashes_file(block.name)
    if not file.is_file():
        raise ConfigError(
            f"{path} was made by a version of Unisono that could not add to a corpus",
            where="corpus.directory",
            fix="remove the directory, or choose another corpus.directory",
        )
    return np.fromfile(file, HASH_TYPE)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield a directory inside that of the corpus, which is on the same disk for sure."""
    directory = path / f"{TEMPORARY}added-{os.getpid()}"
    directory.mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _join(
    assignment: PrepareJob,
    manifest: CorpusManifest,
    directory: Path,
    texts: list[CleanText],
    added: list[Block],
    drops: Drops,
) -> None:
    new = {entry.name: written(entry) for entry in sorted(directory.iterdir())}
    for name in new:
        sync(directory / name)
        (directory / name).rename(assignment.path / name)
    sync(assignment.path)
    files = manifest.files | new
    records = [text.record for text in texts]
    blocks = _reweighted(assignment, [*manifest.splits["train"].blocks, *added])
    complete = msgspec.structs.replace(
        manifest,
        inputs=[*manifest.inputs, *records],
        splits=manifest.splits | {"train": size_of_split(blocks)},
        read_pairs=manifest.read_pairs + sum(record.source.lines for record in records),
        dropped=drops.summary(),
        kept_overlap=_added_overlap(manifest, texts),
        files=files,
    )
    write_bytes(assignment.path / MANIFEST, manifest_bytes(fingerprinted(complete)))


def _added_overlap(manifest: CorpusManifest, texts: list[CleanText]) -> int:
    if manifest.kept_overlap < 0:
        return manifest.kept_overlap
    return manifest.kept_overlap + sum(text.kept_overlap for text in texts)


def _reweighted(assignment: PrepareJob, blocks: list[Block]) -> list[Block]:
    return [
        msgspec.structs.replace(block, weight=raw.weight)
        for block, raw in zip(blocks, assignment.train, strict=True)
    ]
