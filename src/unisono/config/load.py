"""Settings back to TOML, every value spelled out.

From a TOML file to settings that are known to be possible.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from unisono.config.sanity import check_text, check_training
from unisono.config.settings import Settings
from unisono.config.strict import convert
from unisono.errors import ConfigError, suggest
from unisono.models.settings import PRESETS
from unisono.schedules import Transformer


def to_toml(settings: Settings) -> str:
    """Return `settings` as TOML that loads to the same settings."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(settings)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


LARGEST_FILE = 1_000_000


def load_settings(
    path: Path, overrides: Sequence[str] = (), *, training: bool = True
) -> Settings:
    """Read the settings at `path`, changed by `overrides` such as "train.max_steps=100".

    Without `training` they need only say how to make a corpus.
    """
    table = read_toml(path)
    for text in overrides:
        _override(table, text)
    settings = resolve(table, where=str(path), training=training)
    return msgspec.structs.replace(settings, run=settings.run or f"runs/{path.stem}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, with an error that names the line."""
    if path.is_dir():
        raise ConfigError(
            f"{path} is a directory", where=str(path), fix="name a TOML file; see configs/"
        )
    if not path.is_file():
        raise ConfigError(
            f"there is no file {path}", where=str(path), fix="check the path; see configs/"
        )
    if path.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"{path} is too large for settings", where=str(path))
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from error


def resolve(table: dict[str, Any], *, where: str, training: bool = True) -> Settings:
    """Turn a table into settings, with the preset filled in and everything checked.

    Without `training` whatever counts for training alone may be missing or not fit.
    """
    settings = convert(_with_preset(table, where), Settings, where=where)
    schedule = settings.schedule
    if isinstance(schedule, Transformer) and schedule.d_model == 0:
        filled = msgspec.structs.replace(schedule, d_model=settings.model.width)
        settings = msgspec.structs.replace(settings, schedule=filled)
    check_text(settings, where=where)
    if training:
        check_training(settings, where=where)
    return settings


def _with_preset(table: dict[str, Any], where: str) -> dict[str, Any]:
    model = table.get("model")
    if not isinstance(model, dict) or "preset" not in model:
        return table
    name = model["preset"]
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(
            f"there is no model preset {name!r}",
            where=f"{where} [model] preset",
            fix=suggest(str(name), PRESETS),
        )
    chosen = {key: value for key, value in model.items() if key != "preset"}
    return {**table, "model": {**PRESETS[name], **chosen}}


def _override(table: dict[str, Any], text: str) -> None:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(
            f'"{text}" does not set anything', where="--set", fix="write --set table.key=value"
        )
    *tables, last = key.strip().split(".")
    place = table
    for name in tables:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise ConfigError(f"`{name}` is not a table", where=f"--set {text}")
    chosen = _value(value.strip())
    if last == "name" and place.get("name") != chosen:
        place.clear()  # the other settings belong to what was chosen before
    place[last] = chosen


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string: --set run=runs/other
