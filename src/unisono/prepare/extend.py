"""Extend an existing corpus by new sources; what it has stays as it is.

The new blocks are written next to the others. They become part of the corpus when the
manifest that names them replaces the old one, atomically and last.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np

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
from unisono.prepare.disk_space import check_disk_space
from unisono.prepare.first_pass import clean_text
from unisono.prepare.first_pass.filters import Drops
from unisono.prepare.job import PrepareJob, PrepareProgress
from unisono.prepare.second_pass.encode import TokenizerFiles
from unisono.prepare.second_pass.vocabulary import check_train
from unisono.prepare.second_pass.write import SplitWriter
from unisono.prepare.up_to_date import CorpusComparison


def reweight(job: PrepareJob, manifest: CorpusManifest) -> None:
    """Give the blocks of a corpus the weights of the current settings."""
    blocks = _reweighted(job, manifest.splits["train"].blocks)
    splits = manifest.splits | {"train": size_of_split(blocks)}
    changed = msgspec.structs.replace(manifest, splits=splits)
    write_bytes(job.path / MANIFEST, manifest_bytes(fingerprinted(changed)))


def add_sources(
    job: PrepareJob, comparison: CorpusComparison
) -> Generator[PrepareProgress, None, None]:
    """Run both passes over the new sources, with the vocabulary of the corpus."""
    path, manifest = job.path, comparison.manifest
    known = [_hashes(path, block) for block in manifest.splits["train"].blocks]
    check_disk_space(path, comparison.added, job.settings)
    drops = Drops()
    drops.add_all(manifest.dropped)
    with _scratch_directory(path) as directory:
        scratch = directory / "clean"
        scratch.mkdir()
        texts = yield from clean_text.clean_training_text(
            job, comparison.added, clean_text.read_held_out(job), scratch, drops, known
        )
        splits = SplitWriter(open_corpus(path).tokenizers(), directory, drops)
        files = TokenizerFiles(manifest.tokenizer, path, manifest.joint, tuple(manifest.tags))
        yield from splits.write_train(texts, job, files)
        added = splits.blocks["train"]
        check_train(size_of_split(added), splits.unknown, manifest.learning, added=True)
        shutil.rmtree(scratch)
        _publish(job, manifest, directory, texts, added, drops)


def _hashes(path: Path, block: Block) -> clean_text.Hashes:
    file = path / hashes_file(block.name)
    if not file.is_file():
        raise ConfigError(
            f"{path} comes from a version of Unisono that could not extend a corpus",
            where="corpus.directory",
            fix="remove the directory, or choose another corpus.directory",
        )
    return np.fromfile(file, HASH_TYPE)


@contextmanager
def _scratch_directory(path: Path) -> Iterator[Path]:
    """Yield a directory inside the corpus, so that it is on the same disk."""
    directory = path / f"{TEMPORARY}added-{os.getpid()}"
    directory.mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _publish(
    job: PrepareJob,
    manifest: CorpusManifest,
    directory: Path,
    texts: list[clean_text.CleanText],
    added: list[Block],
    drops: Drops,
) -> None:
    new = {entry.name: written(entry) for entry in sorted(directory.iterdir())}
    for name in new:
        sync(directory / name)
        (directory / name).rename(job.path / name)
    sync(job.path)
    files = manifest.files | new
    records = [text.record for text in texts]
    blocks = _reweighted(job, [*manifest.splits["train"].blocks, *added])
    complete = msgspec.structs.replace(
        manifest,
        inputs=[*manifest.inputs, *records],
        splits=manifest.splits | {"train": size_of_split(blocks)},
        read_pairs=manifest.read_pairs + sum(record.source.lines for record in records),
        dropped=drops.summary(),
        kept_overlap=_added_overlap(manifest, texts),
        files=files,
    )
    write_bytes(job.path / MANIFEST, manifest_bytes(fingerprinted(complete)))


def _added_overlap(manifest: CorpusManifest, texts: list[clean_text.CleanText]) -> int:
    if manifest.kept_overlap < 0:
        return manifest.kept_overlap
    return manifest.kept_overlap + sum(text.kept_overlap for text in texts)


def _reweighted(job: PrepareJob, blocks: list[Block]) -> list[Block]:
    return [
        msgspec.structs.replace(block, weight=raw.weight)
        for block, raw in zip(blocks, job.train, strict=True)
    ]
