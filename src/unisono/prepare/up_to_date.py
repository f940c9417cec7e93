"""Compare an existing corpus with the settings: use, extend or refuse it, never overwrite it.

Also removes the files that killed preparations left behind.
"""

import re
import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.atomic import TEMPORARY, clean, sha256_of
from unisono.corpus.manifest import MANIFEST, CorpusManifest, Input
from unisono.corpus.reader import check_file, differences, open_corpus
from unisono.errors import ConfigError
from unisono.prepare.job import PrepareJob, PrepareProgress, RawPair
from unisono.prepare.second_pass.vocabulary import given_models, inherited_learning
from unisono.text.inherited import LIKE

_FIX = "remove the directory, or choose another corpus.directory"
_BLOCK_FILE = re.compile(r"train\.\d+\.(hashes|(source|target)\.(ids|offsets))")


def remove_leftovers(path: Path) -> None:
    """Remove what killed preparations of `path` left behind, and of no other corpus."""
    leftover = re.compile(re.escape(f"{TEMPORARY}{path.name}-") + r"\d+")
    for entry in path.parent.iterdir():
        if leftover.fullmatch(entry.name):
            shutil.rmtree(entry)


@dataclass(frozen=True)
class CorpusComparison:
    """An existing corpus that fits the settings, but for sources to add or their weights."""

    manifest: CorpusManifest
    added: list[RawPair]
    weights_changed: bool


def is_taken(path: Path) -> bool:
    """Say whether anything but an empty directory is at `path`."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def compare_corpus(job: PrepareJob) -> Generator[PrepareProgress, None, CorpusComparison]:
    """Compare the existing corpus with the settings; raise an error that lists what differs."""
    path = job.path
    if not (path / MANIFEST).is_file():
        what = f"{path} exists and is not a corpus"
        raise ConfigError(what, where="corpus.directory", fix="choose another corpus.directory")
    manifest = open_corpus(path).manifest
    _remove_unlisted_blocks(path, manifest)
    found = [
        f"{d.name} was {_toml(d.then)}, now {_toml(d.now)}"
        for d in differences(manifest, job.settings, job.languages)
    ]
    if not found and (other := _other_pieces(job, manifest)):
        found.append(other)
    total, done = sum(raw.bytes for raw in job.inputs), 0
    hashes: list[tuple[str, ...]] = []
    for raw in job.inputs:
        yield PrepareProgress("comparing", done, total, "bytes")
        hashes.append(tuple(map(sha256_of, raw.files)))
        done += raw.bytes
    found += _changed_files(manifest.inputs, job.inputs, hashes)
    found += _changed_tags(manifest.inputs, job.inputs)
    if found:
        raise ConfigError(
            f"{path} holds a corpus made from other text or settings: {'; '.join(found)}",
            where="corpus.directory",
            fix=_FIX,
        )
    _check_tags_are_known(path, manifest, job)
    yield from _verify(path, manifest)
    then = [block.weight for block in manifest.splits["train"].blocks]
    now = [raw.weight for raw in job.train]
    added = job.inputs[len(manifest.inputs) :]
    return CorpusComparison(manifest, added, then != now[: len(then)])


def _other_pieces(job: PrepareJob, manifest: CorpusManifest) -> str:
    """Say how the pieces that the corpus was made with differ from those wanted now; or ""."""
    learning = manifest.learning
    if job.like is not None:
        same = learning.models == inherited_learning(job.like).models
        return "" if same else f"its pieces are not those of {job.like.origin}"
    if learning.algorithm == LIKE:
        return "" if learning.models else "its pieces are inherited"
    models = [sha256_of(model) for model in given_models(job.settings)]
    same = models == learning.models
    return "" if same else "pieces_model is another file of the same name"


def _check_tags_are_known(path: Path, manifest: CorpusManifest, job: PrepareJob) -> None:
    for raw in job.train:
        if raw.tag and raw.tag not in manifest.tags:
            raise ConfigError(
                f"the vocabulary of {path} has no tag {raw.tag}: its pieces are fixed",
                where=raw.where,
                fix="prepare all the text in another corpus.directory; there "
                f'`corpus.tags = ["{raw.tag}"]` reserves a piece for sources that come later',
            )


def _changed_tags(then: list[Input], now: list[RawPair]) -> Iterator[str]:
    for before, raw in zip(then, now, strict=False):
        if before.tag != raw.tag:
            yield f"the tag of {raw.source} was {before.tag!r}, now {raw.tag!r}"


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _verify(path: Path, manifest: CorpusManifest) -> Iterator[PrepareProgress]:
    """Read every file of the corpus; raise a DataError if one has changed."""
    total, done = sum(file.bytes for file in manifest.files.values()), 0
    for name, file in manifest.files.items():
        yield PrepareProgress("verifying", done, total, "bytes")
        check_file(path / name, file)
        done += file.bytes


def _changed_files(
    then: list[Input], now: list[RawPair], hashes: list[tuple[str, ...]]
) -> Iterator[str]:
    if counted := _changed_counts(then, now):
        yield counted
        return
    texts_then = [_text_of(entry) for entry in then]
    texts_now = [(r.split, r.columns or (), h) for r, h in zip(now, hashes, strict=True)]
    if texts_then != texts_now[: len(then)] and set(texts_then) <= set(texts_now):
        more = len(now) > len(then)
        new_first = "there are new sources before the old ones; name them last"
        yield new_first if more else "it has the same sources in another order"
        return
    for before, raw, found in zip(then, now, hashes, strict=False):
        yield from _changes(before, raw, found)


def _changed_counts(then: list[Input], now: list[RawPair]) -> str:
    for split in ("valid", "test"):
        had, has = (any(i.split == split for i in inputs) for inputs in (then, now))
        if had != has:
            return f"it was made {'with' if had else 'without'} a {split} set"
    before, after = (sum(i.split == "train" for i in inputs) for inputs in (then, now))
    if before > after:
        verb = "is" if after == 1 else "are"
        return f"it was made from {before} sources, now there {verb} {after}"
    return ""


def _text_of(entry: Input) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    hashes = (entry.source.sha256, entry.target.sha256)
    return entry.split, tuple(entry.columns), hashes[:1] if entry.columns else hashes


def _changes(before: Input, raw: RawPair, hashes: tuple[str, ...]) -> Iterator[str]:
    files = (before.source, before.target)[: len(hashes)]
    if tuple(before.columns) != (raw.columns or ()):
        yield f"the columns of {raw.source} were {before.columns}"
    for file, path, hash_now in zip(files, raw.files, hashes, strict=True):
        if file.sha256 != hash_now:
            other = f"is not the {file.name} it was made from"
            yield f"{path} {'has changed since' if path.name == file.name else other}"


def _remove_unlisted_blocks(path: Path, manifest: CorpusManifest) -> None:
    """Remove what a killed extension left next to the files of the corpus."""
    clean(path)
    for entry in path.iterdir():
        if _BLOCK_FILE.fullmatch(entry.name) and entry.name not in manifest.files:
            entry.unlink()
