"""Locks a run directory, new or to be continued.

Only one process may write to a run directory at a time. A run continues in a directory of
the same settings and the same corpus; any other directory is refused, never overwritten.
"""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from unisono import atomic
from unisono.batching.settings import TOKENS_ON_CPU
from unisono.config.load import read_toml, resolve, to_toml
from unisono.config.settings import Data, Settings
from unisono.corpus.manifest import CorpusManifest
from unisono.corpus.reader import Corpus, SettingDifference, differences
from unisono.errors import ConfigError, DataError, RunError
from unisono.lock import lock
from unisono.records.layout import RunDirectory
from unisono.small_files import json_table, open_to_write, read_parsed
from unisono.train.checkpoints import checkpoint

# What may change when a run is continued: none of it changes what an update does.
MAY_DIFFER = {"run", "device", "sync", "limits", "validation", "checkpoint", "decoding", "data"}
MAY_DIFFER |= {"monitor"}
_LOCK_ATTEMPTS = 20
LIMITS = {"max_steps", "max_epochs", "max_time", "patience", "show_every_steps", "compile"}
MICRO_BATCH_KEY = "batching.tokens_per_micro_batch"
PRECISION_BEFORE_AUTO = "fp32"  # the default of versions that had no "auto"


class RunLock:
    """A run directory that this process holds until `release`."""

    def __init__(self, directory: RunDirectory) -> None:
        try:
            directory.path.mkdir(parents=True, exist_ok=True)
            self._handle = open_to_write(directory.lock, os.O_RDWR)
        except OSError as error:
            raise ConfigError(
                f"the run directory cannot be written: {error.strerror}",
                where=str(error.filename or directory.path),
                fix="look at it there, or choose another directory with --set run=…",
            ) from error
        try:
            lock(self._handle, attempts=_LOCK_ATTEMPTS)
        except OSError as error:
            owner = os.read(self._handle, 200).decode("utf-8", "replace").strip()
            os.close(self._handle)
            raise RunError(
                f"another process is training in this run directory ({owner or 'unknown'})",
                where=str(directory.path),
                fix="wait for it, stop it, or choose another directory with --set run=…",
            ) from error
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"host {os.uname().nodename} process {os.getpid()}\n".encode())

    def release(self) -> None:
        """Release the directory."""
        os.close(self._handle)


def lock_run(settings: Settings, corpus: Corpus, environment: dict[str, Any]) -> RunLock:
    """Lock the run directory, check that it is new or may continue, and describe the run."""
    directory = RunDirectory(Path(settings.run))
    check_corpus_matches(settings, corpus)
    _check_directory(directory)
    held = RunLock(directory)
    try:
        _check_same_settings(directory, settings)
        _check_same_corpus(directory, corpus)
        if directory.checkpoints.is_dir():
            atomic.clean(directory.checkpoints)
        atomic.clean(directory.path)
        atomic.write_bytes(directory.corpus, (corpus.path / "manifest.json").read_bytes())
        atomic.write_text(directory.environment, json.dumps(environment, indent=1) + "\n")
        atomic.write_text(directory.config, to_toml(settings))
    except BaseException:
        held.release()
        raise
    return held


def check_corpus_matches(settings: Settings, corpus: Corpus) -> None:
    """Raise an error if the corpus was prepared with other settings than these."""
    data, made = settings.data, _files_of(corpus.manifest)
    languages = data.source_language, data.target_language
    found = list(differences(corpus.manifest, settings.corpus, languages))
    if made and made != _files_named(data):
        found.append(SettingDifference("files", made, _files_named(data)))
    if found:
        first = found[0]
        raise ConfigError(
            f"the corpus was prepared with {first.name} = {first.then!r}; the settings say "
            f"{first.now!r}",
            where=str(corpus.path),
            fix="prepare it again in another `corpus.directory`, or restore the settings",
        )


def _files_named(data: Data) -> list[tuple[str, ...]]:
    held_out = [(name, p) for name, p in (("valid", data.valid), ("test", data.test)) if p]
    pairs = [*(("train", pair) for pair in data.train), *held_out]
    return sorted(
        _named(split, Path(pair.tsv or pair.source), Path(pair.tsv or pair.target), pair.tag)
        for split, pair in pairs
    )


def _files_of(manifest: CorpusManifest) -> list[tuple[str, ...]]:
    return sorted(
        _named(i.split, Path(i.source.name), Path(i.target.name), i.tag)
        for i in manifest.inputs
    )


def _named(split: str, source: Path, target: Path, tag: str) -> tuple[str, ...]:
    return (split, source.name, target.name, *([tag] if tag else []))


def _check_directory(directory: RunDirectory) -> None:
    if directory.path.exists() and not directory.path.is_dir():
        raise ConfigError(
            f"{directory.path} is a file, not a run directory",
            where="run",
            fix="choose another directory with --set run=…",
        )
    if not directory.path.is_dir():
        return
    known = {directory.config.name, directory.lock.name, directory.stream.name}
    strangers = [entry.name for entry in directory.path.iterdir() if entry.name not in known]
    ours = directory.config.is_file() or all(
        name.startswith(atomic.TEMPORARY)
        or name in (directory.corpus.name, directory.environment.name)
        for name in strangers
    )
    if not ours:
        raise ConfigError(
            f"{directory.path} exists and is not a run of Unisono: it holds {strangers[0]}",
            where="run",
            fix="choose another directory with --set run=…",
        )


def recorded_precision(settings: Settings) -> str:
    """Return the precision of the run that exists already, or ""."""
    train = _recorded_table(settings, "train")
    told = train.get("precision", PRECISION_BEFORE_AUTO) if train else ""
    return told if isinstance(told, str) else ""


def recorded_micro_batch(settings: Settings) -> int:
    """Return the tokens of a micro-batch of the run that exists already, or 0."""
    batching = _recorded_table(settings, "batching")
    told = batching.get("tokens_per_micro_batch", TOKENS_ON_CPU) if batching else 0
    return told if isinstance(told, int) else 0


def _recorded_table(settings: Settings, name: str) -> dict[str, Any]:
    """Return a table of the run's config.toml, or an empty one."""
    config = RunDirectory(Path(settings.run)).config
    if not settings.run or not config.is_file():
        return {}
    try:
        table = read_toml(config).get(name)
    except ConfigError:  # whoever takes the run over will say so
        return {}
    return table if isinstance(table, dict) else {}


def _check_same_settings(directory: RunDirectory, settings: Settings) -> None:
    if not directory.config.is_file():
        return
    # Resolved, so that settings which an older version did not have count as their defaults.
    table = read_toml(directory.config)
    table.setdefault("train", {}).setdefault("precision", PRECISION_BEFORE_AUTO)
    before = _fixed(resolve(table, where=str(directory.config)))
    now = _fixed(settings)
    if not checkpoint.names(directory.checkpoints):
        # It begins again. Perhaps its first micro-batches did not fit.
        before.pop(MICRO_BATCH_KEY, None)
        now.pop(MICRO_BATCH_KEY, None)
    changed = sorted(key for key in before.keys() | now if before.get(key) != now.get(key))
    if changed:
        key = changed[0]
        raise ConfigError(
            f"this run was started with {key} = {before.get(key)!r}, now it is "
            f"{now.get(key)!r} (different: {', '.join(changed)})",
            where=str(directory.config),
            fix="continue with the old settings, or start a new run with --set run=…",
        )


def _fixed(settings: Settings) -> dict[str, Any]:
    filled = msgspec.structs.replace(settings, batching=settings.batching.filled())
    table = tomllib.loads(to_toml(filled))
    kept = {name: value for name, value in table.items() if name not in MAY_DIFFER}
    flat = {}
    for name, value in kept.items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            flat[name] = value
    # What the run started from is compared by its hash, wherever it is now.
    may = {f"train.{limit}" for limit in LIMITS} | {"corpus.directory", "start.from"}
    return {key: value for key, value in flat.items() if key not in may}


def _check_same_corpus(directory: RunDirectory, corpus: Corpus) -> None:
    if not directory.corpus.is_file():
        return
    before = read_parsed(directory.corpus, json_table, fix="restore it, or start a new run")
    if before.get("fingerprint") != corpus.fingerprint:
        raise DataError(
            "the corpus is not the one this run was started with: its fingerprint was "
            f"{str(before.get('fingerprint'))[:12]}, now it is {corpus.fingerprint[:12]}",
            where=str(corpus.path),
            fix="restore the old corpus, or start a new run with --set run=…",
        )
