"""Weights from elsewhere: checked before the run begins, and kept in its directory.

A run directory has a copy of what the run started from: its bundle, where it came from, and
the old test set. So a run that continues, or goes back to its first weights, never looks at
the original again, which may have moved or changed.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from torch import nn

from unisono import atomic
from unisono.bundle.format import MANIFEST, bundle_at
from unisono.bundle.huggingface import foreign_settings, import_model
from unisono.bundle.huggingface_pieces import is_huggingface, read_pieces
from unisono.bundle.reader import Bundle, open_bundle
from unisono.config.load import read_toml
from unisono.config.settings import Settings, Start
from unisono.corpus.reader import Corpus
from unisono.errors import ConfigError, DataError
from unisono.models.settings import TransformerSettings
from unisono.models.transformer import TransformerModel
from unisono.records.layout import RunDirectory
from unisono.score.files import aligned_lines
from unisono.small_files import PARSER_ERRORS, read_bytes, reason
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers

OLD_TEST = ("old_test.source", "old_test.target")
START_BUNDLE, START_RECORD = "bundle", "start.json"
# What a model may have otherwise than the weights were trained with.
MAY_DIFFER_IN = {
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "word_dropout",
    "initialisation",
}
FREEZABLE_WEIGHTS = {
    "embeddings": ("embeddings.", "positions.", "output_bias"),
    "encoder": ("encoder.", "encoder_norm."),
    "decoder": ("decoder.", "decoder_norm."),
}


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a run started from, as its directory records it: `start.json`.

    `sha256` is that of the manifest of the bundle, which has the hashes of all its files.
    """

    format: int = 1
    origin: str
    sha256: str


@dataclass(frozen=True, eq=False)
class StartSource:
    """A model to start from, which `write` copies as a bundle to a directory of its own."""

    model: TransformerSettings
    normalisation: Normalisation
    tokenizers: Tokenizers
    write: Callable[[Path], None]


def check_start(settings: Settings, corpus: Corpus) -> None:
    """Raise an error if the run cannot start from what the settings name, or not any more."""
    start = settings.start
    if not start.from_:
        return
    kept = recorded_start(Path(settings.run))
    if kept is not None:
        _check_same_origin(start, kept)
    elif not _has_saved(settings):
        _checked_source(settings, corpus)


def keep_start(settings: Settings, corpus: Corpus) -> None:
    """Copy what the settings name into the run directory, unless that is done already.

    A run that has saved something goes on from there, even if its copy is missing.
    """
    start, directory = settings.start, RunDirectory(Path(settings.run)).start
    if not start.from_ or directory.is_dir() or _has_saved(settings):
        return
    source = _checked_source(settings, corpus)
    with atomic.new_directory(directory) as new:
        source.write(new / START_BUNDLE)
        record = StartRecord(origin=start.from_, sha256=identity(new / START_BUNDLE))
        atomic.write_bytes(new / START_RECORD, msgspec.json.encode(record))
        for name, lines in zip(OLD_TEST, _old_test(start), strict=False):
            text = "".join(f"{line}\n" for line in lines)
            atomic.write_text(new / name, text)


def old_test_lines(run: Path) -> tuple[list[str], list[str]]:
    """Return source and target of the old test set that the run keeps, or nothing."""
    source, target = (RunDirectory(run).start / name for name in OLD_TEST)
    if not (source.is_file() and target.is_file()):
        return [], []
    found = aligned_lines([source, target])
    return found[0], found[1]


def _old_test(start: Start) -> list[list[str]]:
    """Return the old test set that the settings name, or that of the run to start from."""
    named = [Path(name) for name in start.old_test]
    if named:
        return aligned_lines(named)
    config = RunDirectory(Path(start.from_)).config
    test = read_toml(config).get("data", {}).get("test", {}) if config.is_file() else {}
    theirs = [Path(test.get(side, "")) for side in ("source", "target")]
    # Paths are relative to where that run was started, which may be elsewhere.
    return aligned_lines(theirs) if all(path.is_file() for path in theirs) else []


def _has_saved(settings: Settings) -> bool:
    checkpoints = RunDirectory(Path(settings.run)).checkpoints
    return checkpoints.is_dir() and any(checkpoints.glob("step-*"))


def _checked_source(settings: Settings, corpus: Corpus) -> StartSource:
    """Return what to start from; raise an error if it does not fit the settings or corpus."""
    languages = settings.data.source_language, settings.data.target_language
    source = source_at(Path(settings.start.from_), languages)
    _check_model(settings, source.model)
    _check_vocabulary(settings, corpus, source)
    _old_test(settings.start)
    return source


def source_at(path: Path, languages: tuple[str, str]) -> StartSource:
    """Open the run, bundle or Hugging Face directory at `path`, and check every file of it."""
    try:
        if is_huggingface(path):
            pieces = read_pieces(path)
            settings = foreign_settings(pieces, path)
            write = partial(import_model, path, languages=languages)
            return StartSource(settings, pieces.normalisation, pieces.tokenizers, write)
        bundle = open_bundle(bundle_at(path))
    except DataError as error:
        raise DataError(
            f"the run cannot start from {path}: {error.what}",
            where=f"[start] from: {error.where}",
            fix=error.fix,
        ) from error
    about = bundle.description
    normalisation = Normalisation(about.plain_quotes, about.lowercase)
    return StartSource(about.model, normalisation, bundle.tokenizers, _copying(bundle))


def recorded_start(run: Path) -> StartRecord | None:
    """Return what the run started from, or None."""
    path = RunDirectory(run).start / START_RECORD
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_bytes(path), type=StartRecord)
    except (OSError, *PARSER_ERRORS) as error:
        raise DataError(
            f"{path.name} is damaged: {reason(error)}",
            where=str(path),
            fix="restore it from a copy, or remove the directory `start`: a run that has a "
            "checkpoint goes on without it",
        ) from error


def start_bundle(run: Path) -> Bundle | None:
    """Open the copy of what the run started from; None if there is none."""
    directory = RunDirectory(run).start
    return open_bundle(directory / START_BUNDLE) if directory.is_dir() else None


def load_start(model: TransformerModel, run: Path) -> None:
    """Put the weights that the run started from into `model`, if there are any."""
    bundle = start_bundle(run)
    if bundle is not None:
        model.load_state_dict(bundle.model().state_dict())


def freeze(model: nn.Module, start: Start) -> None:
    """Let the parts that `start` names have no gradient: nothing moves or exchanges them."""
    prefixes = tuple(prefix for part in start.freeze for prefix in FREEZABLE_WEIGHTS[part])
    for name, weight in model.named_parameters():
        if prefixes and name.startswith(prefixes):
            weight.requires_grad_(False)


def identity(bundle: Path) -> str:
    """Return the hash of a bundle: that of its manifest, which has those of all files."""
    return hashlib.sha256((bundle / MANIFEST).read_bytes()).hexdigest()


def _copying(bundle: Bundle) -> Callable[[Path], None]:
    def copy(to: Path) -> None:
        shutil.copytree(bundle.path, to, ignore=shutil.ignore_patterns(f"{atomic.TEMPORARY}*"))
        open_bundle(to)  # the original may have changed in the meantime

    return copy


def _check_same_origin(start: Start, kept: StartRecord) -> None:
    """Raise an error if the settings now name other weights; the same moved are fine."""
    if start.from_ == kept.origin:
        return
    bundle = bundle_at(Path(start.from_))
    if (bundle / MANIFEST).is_file() and identity(bundle) == kept.sha256:
        return
    raise ConfigError(
        f"this run started from {kept.origin} (sha256 {kept.sha256[:12]}), and now `from` is "
        f"{start.from_}, which is something else",
        where="[start] from",
        fix="continue with the old setting, or start a new run with --set run=…",
    )


def _check_model(settings: Settings, theirs: TransformerSettings) -> None:
    ours = settings.model
    names = [name for name in theirs.__struct_fields__ if name not in MAY_DIFFER_IN]
    differ = [name for name in names if getattr(ours, name) != getattr(theirs, name)]
    if differ:
        first = differ[0]
        lines = ", ".join(f"{name} = {_toml(getattr(theirs, name))}" for name in differ)
        raise ConfigError(
            f"the weights of {settings.start.from_} do not fit: they have {first} = "
            f"{_toml(getattr(theirs, first))}, the settings {_toml(getattr(ours, first))}",
            where=f"[model] {first}",
            fix=f"set in [model]: {lines}",
        )


def _check_vocabulary(settings: Settings, corpus: Corpus, source: StartSource) -> None:
    origin, ours = settings.start.from_, corpus.tokenizers()
    again = (
        "prepare the text again with its pieces, in another corpus.directory: unisono prepare "
        f"CONFIG --like {origin}"
    )
    if ours.fingerprint != source.tokenizers.fingerprint:
        raise ConfigError(
            f"the corpus has another vocabulary (sha256 {ours.fingerprint[:16]}) than {origin} "
            f"(sha256 {source.tokenizers.fingerprint[:16]}): the same id would mean another "
            "piece",
            where=f"[start] from and {corpus.path}",
            fix=again,
        )
    normalisation, about = corpus.normalisation(), source.normalisation
    mine = normalisation.plain_quotes, normalisation.lowercase
    if mine != (about.plain_quotes, about.lowercase):
        raise ConfigError(
            f"the corpus was made with plain_quotes = {_toml(mine[0])} and lowercase = "
            f"{_toml(mine[1])}, {origin} with {_toml(about.plain_quotes)} and "
            f"{_toml(about.lowercase)}",
            where=f"[start] from and {corpus.path}",
            fix=again,
        )


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
