"""From a TOML file to settings that are known to be possible, and back to TOML.

A table that does not fit the settings is refused with an error that says what is wrong,
where, and what to write instead.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import tomli_w
from msgspec.structs import replace

from unisono.batching.settings import AUTO_TOKENS
from unisono.config.sanity import check_text, check_training
from unisono.config.settings import Settings
from unisono.errors import ConfigError, suggest
from unisono.models.settings import PRESETS
from unisono.printable import refuse_control
from unisono.schedules import Transformer
from unisono.small_files import PARSER_ERRORS, read_bytes, reason, toml_table

MICRO_BATCH = "tokens_per_micro_batch"
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]*)`")
_PATH = re.compile(r" - at `(?P<path>\$[^`]*)`$")
_KINDS = {
    "`object`": "a table",
    "`array`": "a list",
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text in quotes",
    "`bool`": "true or false",
}


SHIPPED_CONFIGS = Path(__file__).parents[1] / "configs"


def load_settings(
    path: Path, overrides: Sequence[str] = (), *, training: bool = True
) -> Settings:
    """Read the settings at `path` and apply `overrides` such as "train.max_steps=100".

    Without `training` they need to describe a corpus only.
    """
    table = read_toml(_shipped(path))
    for text in overrides:
        _override(table, text)
    settings = resolve(table, where=str(path), training=training)
    return replace(settings, run=settings.run or f"runs/{path.stem}")


def _shipped(path: Path) -> Path:
    """Return `path`, or the config of that name that came with the package.

    So `configs/base.toml` is there outside of a checkout, too.
    """
    ours = SHIPPED_CONFIGS / path.name
    return ours if path.parent == Path("configs") and not path.exists() else path


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an error names the line."""
    if path.is_dir():
        raise ConfigError(
            f"{path} is a directory", where=str(path), fix="name a TOML file; see configs/"
        )
    if not path.is_file():
        raise ConfigError(
            f"there is no file {path}", where=str(path), fix="check the path; see configs/"
        )
    try:
        return toml_table(read_bytes(path))
    except OSError as error:
        what = f"{path} cannot be read: {reason(error)}"
        raise ConfigError(what, where=str(path), fix="check the path; see configs/") from error
    except PARSER_ERRORS as error:
        raise ConfigError(f"not valid TOML: {reason(error)}", where=str(path)) from error


def resolve(table: dict[str, Any], *, where: str, training: bool = True) -> Settings:
    """Return the settings that `table` asks for, with everything filled in and checked.

    Without `training`, settings that only training needs may be missing or impossible.
    """
    refuse_control(table, where=where)
    table = _with_auto(_with_preset(table, where))
    try:
        settings = _with_derived(msgspec.convert(table, Settings))
    except msgspec.ValidationError as error:
        raise _explain(str(error), table, Settings, where) from error
    check_text(settings, where=where)
    if training:
        check_training(settings, where=where)
    return settings


def _with_derived(settings: Settings) -> Settings:
    """Fill in the settings that follow from others."""
    schedule = settings.schedule
    if isinstance(schedule, Transformer) and schedule.d_model == 0:
        schedule = replace(schedule, d_model=settings.model.width)
    return replace(settings, schedule=schedule)


def _with_auto(table: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is "auto": the start of a run chooses it."""
    batching = table.get("batching")
    if not isinstance(batching, dict) or batching.get(MICRO_BATCH) != AUTO_TOKENS:
        return table
    kept = {key: value for key, value in batching.items() if key != MICRO_BATCH}
    return {**table, "batching": kept}


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
        return toml_table(f"value = {text}".encode())["value"]
    except PARSER_ERRORS:
        return text  # a bare word is a string: --set run=runs/other


def to_toml(settings: Settings) -> str:
    """Return `settings` as TOML with every value spelled out; it loads to the same settings."""
    table = _without_none(msgspec.to_builtins(settings))
    if not settings.batching.tokens_per_micro_batch:
        table["batching"][MICRO_BATCH] = AUTO_TOKENS
    return tomli_w.dumps(table)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


def _explain(message: str, table: dict[str, Any], kind: Any, where: str) -> ConfigError:
    at = _PATH.search(message)
    keys = _keys(at["path"]) if at else []
    what = message[: at.start()] if at else message
    owner = _type_at(kind, table, keys)
    place = f"{where} {_place(keys)}".strip()
    if unknown := _UNKNOWN.search(message):
        fields = () if owner is None else owner.__struct_encode_fields__
        owner_name = f" of {_place(keys)}" if keys else ""
        return ConfigError(
            f"`{unknown['key']}` is not a setting{owner_name}",
            where=place,
            fix=suggest(unknown["key"], [*fields, *_extra_keys(keys)]),
        )
    if missing := _MISSING.search(message):
        return _missing(missing["key"], owner, place)
    return _wrong_value(what, table, kind, keys, where)


def _missing(key: str, owner: Any, place: str) -> ConfigError:
    if _structs(_fields(owner).get(key)):
        return ConfigError(f"the table [{key}] is missing", where=place, fix=f"add [{key}]")
    return ConfigError(f"`{key}` is missing", where=place, fix=f"set `{key} = ...`")


def _wrong_value(what: str, table: Any, kind: Any, keys: list[str], where: str) -> ConfigError:
    """Explain a value of the wrong kind, and name the choices if it has any."""
    found = _value_at(table, keys)
    while len(keys) > 1 and keys[-1].isdigit():
        keys = keys[:-1]  # name the list as a whole
    *tables, last = keys or [""]
    place = " ".join(part for part in (where, _place(tables), last) if part)
    owner = _type_at(kind, table, tables)
    hint = _fields(owner).get(last)
    choices = _choices(hint)
    if last == "name" and tables:
        family = _fields(_type_at(kind, table, tables[:-1])).get(tables[-1])
        choices = [struct.__struct_config__.tag for struct in _structs(family)]
    wanted = what.partition(", got")[0].partition(" '")[0]
    for name, plain in _KINDS.items():
        wanted = wanted.replace(name, plain)
    return ConfigError(
        f"{wanted}, got {found!r}",
        where=place,
        fix=f"one of: {', '.join(map(str, choices))}" if choices else _default(owner, last),
    )


def _choices(hint: Any) -> list[Any]:
    """Return the values of a choice, or of a list of choices."""
    options = [hint, *get_args(hint)]
    return [v for option in options if get_origin(option) is Literal for v in get_args(option)]


def _place(keys: list[str]) -> str:
    """Name a table as a person would: `[data.train] number 2` for the second in a list."""
    names = [key for key in keys if not key.isdigit()]
    number = f" number {int(keys[-1]) + 1}" if keys and keys[-1].isdigit() else ""
    return f"[{'.'.join(names)}]{number}" if names else ""


def _default(owner: Any, name: str) -> str:
    """Return a fix that names the default of a setting, or "" if it has no simple one."""
    fields = msgspec.structs.fields(owner) if owner is not None else ()
    for field in fields:
        if field.name == name and isinstance(field.default, bool | int | float | str | tuple):
            return f"leave it out for the default, `{name} = {json.dumps(field.default)}`"
    return ""


def _fields(struct: Any) -> dict[str, Any]:
    if struct is None:
        return {}
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _extra_keys(keys: list[str]) -> list[str]:
    return ["preset"] if keys == ["model"] else []


def _keys(path: str) -> list[str]:
    return [key for key in re.split(r"[.\[\]]+", path.removeprefix("$")) if key]


def _value_at(table: Any, keys: list[str]) -> Any:
    for key in keys:
        if isinstance(table, dict):
            table = table.get(key)
        elif isinstance(table, list) and key.isdigit():
            table = table[int(key)]
    return table


def _type_at(kind: Any, table: Any, keys: list[str]) -> Any:
    """Return the struct that describes the table at `keys`, or None."""
    for depth, key in enumerate(keys):
        if kind is None:
            return None
        if key.isdigit() and isinstance(_value_at(table, keys[:depth]), list):
            continue  # all items of a list are of one kind
        kind = _struct_in(_fields(kind).get(key), _value_at(table, keys[: depth + 1]))
    return kind


def _structs(hint: Any) -> list[Any]:
    options = [hint, *get_args(hint)]
    return [o for o in options if isinstance(o, type) and issubclass(o, msgspec.Struct)]


def _struct_in(hint: Any, value: Any) -> Any:
    structs = _structs(hint)
    if len(structs) > 1 and isinstance(value, dict):
        named = [s for s in structs if s.__struct_config__.tag == value.get("name")]
        return named[0] if named else None
    return structs[0] if structs else None
