"""What to do with a corpus that is there already: use it or refuse, never overwrite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unisono.atomic import sha256_of
from unisono.config.settings import CorpusSettings, Data
from unisono.corpus.layout import MANIFEST
from unisono.corpus.manifest import Manifest
from unisono.corpus.reader import open_corpus
from unisono.errors import ConfigError
from unisono.prepare.inputs import RawPair
from unisono.prepare.progress import Progress

_FIX = "remove the directory, or choose another corpus.directory"


def recorded_settings(settings: CorpusSettings) -> dict[str, Any]:
    """Return the settings that shape a corpus: all but where it lies."""
    values = msgspec.structs.asdict(settings)
    del values["directory"]
    return values


def is_taken(path: Path) -> bool:
    """Say whether something is at `path` already; an empty directory is nothing."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def check_up_to_date(
    path: Path, data: Data, settings: CorpusSettings, inputs: list[RawPair]
) -> Iterator[Progress]:
    """Pass if the corpus at `path` is what preparing would make; say what differs if not."""
    if not (path / MANIFEST).is_file():
        what = f"{path} exists and is not a corpus"
        raise ConfigError(what, where="corpus.directory", fix="choose another corpus.directory")
    manifest = open_corpus(path).manifest
    differences = [*_other_settings(manifest, data, settings)]
    total, done = sum(raw.bytes for raw in inputs), 0
    hashes: list[tuple[str, str]] = []
    for raw in inputs:
        yield Progress("comparing", done, total, "bytes")
        hashes += [(raw.split, sha256_of(file)) for file in raw.files]
        done += raw.bytes
    differences += _other_files(manifest, inputs, hashes)
    if differences:
        raise ConfigError(
            f"{path} holds a corpus made otherwise: {'; '.join(differences)}",
            where="corpus.directory",
            fix=_FIX,
        )
    yield Progress("up to date", 1, 1, "corpora")


def _other_settings(manifest: Manifest, data: Data, settings: CorpusSettings) -> Iterator[str]:
    now = recorded_settings(settings)
    now |= {"source_language": data.source_language, "target_language": data.target_language}
    then = manifest.settings | {
        "source_language": manifest.source_language,
        "target_language": manifest.target_language,
    }
    for name in sorted(now.keys() | then.keys()):
        if now.get(name) != then.get(name):
            yield f"{name} was {then.get(name)}, now {now.get(name)}"


def _other_files(
    manifest: Manifest, inputs: list[RawPair], hashes: list[tuple[str, str]]
) -> Iterator[str]:
    then = [(i.split, file) for i in manifest.inputs for file in (i.source, i.target)]
    if [split for split, _ in then] != [split for split, _ in hashes]:
        yield f"it was made from {len(then)} files, now there are {len(hashes)}"
        return
    files = [file for raw in inputs for file in raw.files]
    for (_, old), (_, new), path in zip(then, hashes, files, strict=True):
        if old.sha256 != new:
            yield f"{path} is not the {old.name} it was made from"
