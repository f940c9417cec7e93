"""Turn a table into a struct, and say what is wrong with it in words a user can act on."""

import re
from typing import Any, TypeVar, get_args

import msgspec

from unisono.errors import ConfigError, suggest

T = TypeVar("T")

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]*)`")
_PATH = re.compile(r" - at `(?P<path>\$[^`]*)`$")


def convert(table: dict[str, Any], kind: type[T], *, where: str) -> T:
    """Make a `kind` from `table`, refusing unknown keys and wrong types."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise _explain(str(error), table, kind, where) from error


def _explain(message: str, table: dict[str, Any], kind: Any, where: str) -> ConfigError:
    at = _PATH.search(message)
    keys = _keys(at["path"]) if at else []
    what = message[: at.start()] if at else message
    owner = _type_at(kind, table, keys)
    place = f"{where} [{'.'.join(keys)}]" if keys else where
    if unknown := _UNKNOWN.search(message):
        fields = () if owner is None else owner.__struct_fields__
        return ConfigError(
            f"`{unknown['key']}` is not a setting of [{'.'.join(keys) or 'the run'}]",
            where=place,
            fix=suggest(unknown["key"], [*fields, *_extra_keys(keys)]),
        )
    if missing := _MISSING.search(message):
        key = missing["key"]
        return ConfigError(f"`{key}` is missing", where=place, fix=f"set `{key} = ...`")
    place = f"{where} [{'.'.join(keys[:-1])}] {keys[-1]}" if keys else where
    return ConfigError(f"{what}, got {_value_at(table, keys)!r}", where=place)


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
        hints = msgspec.structs.fields(kind)
        found = next((field.type for field in hints if field.name == key), None)
        kind = _struct_in(found, _value_at(table, keys[: depth + 1]))
    return kind


def _struct_in(hint: Any, value: Any) -> Any:
    options = [hint, *get_args(hint)]
    structs = [o for o in options if isinstance(o, type) and issubclass(o, msgspec.Struct)]
    if len(structs) > 1 and isinstance(value, dict):
        named = [s for s in structs if s.__struct_config__.tag == value.get("name")]
        return named[0] if named else None
    return structs[0] if structs else None
