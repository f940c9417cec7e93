"""Which models a server has, and what it has to know of them without torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from unisono.bundle.format import DESCRIPTION, MANIFEST, Description, bundle_at, read_json
from unisono.errors import ConfigError, DataError
from unisono.small_files import json_table, read_parsed
from unisono.text.load import load_tokenizers
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizer

# What `unisono export` writes, with the description of the bundle in it.
EXPORT_DESCRIPTION = "unisono.json"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A bundle or an export: where it is, what it says of itself, how it cuts into pieces."""

    path: Path
    about: Description
    tokenizer: Tokenizer

    @property
    def pair(self) -> tuple[str, str]:
        return self.about.source_language, self.about.target_language

    def fits(self, sentence: str) -> bool:
        """Return whether the model was trained on sentences as long as this one."""
        # No piece is shorter than nothing: this saves encoding a megabyte to find out.
        if len(sentence) > 100 * self.about.max_pieces:
            return False
        [line] = self._normalisation([sentence.replace("\n", " ")])
        [pieces] = self.tokenizer.encode([line])
        return len(pieces) <= self.about.max_pieces

    @cached_property
    def _normalisation(self) -> Normalisation:
        return Normalisation(self.about.plain_quotes, self.about.lowercase)


def open_models(paths: Sequence[Path], engine: str) -> list[ServedModel]:
    """Read the descriptions at `paths`; each has to name a pair of languages of its own."""
    open_one: Callable[[Path], ServedModel] = _export if engine == "ctranslate2" else _bundle
    models = [open_one(path) for path in paths]
    seen: dict[tuple[str, str], Path] = {}
    for model in models:
        _check_pair(model, seen)
        seen[model.pair] = model.path
    return models


def fingerprint(model: ServedModel) -> tuple[int, ...]:
    """Return numbers that change when the files of a model are replaced; none if missing."""
    for name in (MANIFEST, EXPORT_DESCRIPTION):
        try:
            status = (model.path / name).stat()
        except OSError:
            continue
        return status.st_ino, status.st_mtime_ns, status.st_size
    return ()


def _bundle(path: Path) -> ServedModel:
    place = bundle_at(path)
    return _opened(place, read_json(place / DESCRIPTION, Description))


def _export(path: Path) -> ServedModel:
    if not (path / EXPORT_DESCRIPTION).is_file():
        raise DataError(
            f"this is no export of Unisono: it has no {EXPORT_DESCRIPTION}",
            where=str(path),
            fix="unisono export BUNDLE --to ctranslate2; a bundle is served without --engine",
        )
    fix = "copy the export again"
    table = read_parsed(path / EXPORT_DESCRIPTION, json_table, fix=fix)
    try:
        about = msgspec.convert(table.get("bundle"), Description)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{EXPORT_DESCRIPTION} is damaged: {error}", where=str(path), fix=fix
        ) from error
    return _opened(path, about)


def _opened(path: Path, about: Description) -> ServedModel:
    sides = load_tokenizers(about.tokenizer, path, joint=about.joint, tags=about.tags)
    return ServedModel(path, about, sides.source)


def _check_pair(model: ServedModel, seen: dict[tuple[str, str], Path]) -> None:
    source, target = model.pair
    if not source or not target:
        raise ConfigError(
            "this model does not say between which languages it translates",
            where=str(model.path),
            fix="train with data.source_language and data.target_language",
        )
    if model.pair in seen:
        raise ConfigError(
            f"two models translate {source} → {target}: {seen[model.pair]} and {model.path}",
            where="unisono serve",
            fix="name one of them",
        )
