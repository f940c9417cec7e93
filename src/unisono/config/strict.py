"""Turn a table into a struct, and say what is wrong with it in words a user can act on."""

import json
import re
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from unisono.errors import ConfigError, suggest

T = TypeVar("T")

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
    place = f"{where} {_place(keys)}".strip()
    if unknown := _UNKNOWN.search(message):
        fields = () if owner is None else owner.__struct_fields__
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
    """Explain a value of the wrong kind, and name the choices where there are some."""
    found = _value_at(table, keys)
    while len(keys) > 1 and keys[-1].isdigit():
        keys = keys[:-1]  # a list is named as a whole
    *tables, last = keys or [""]
    place = " ".join(part for part in (where, _place(tables), last) if part)
    owner = _type_at(kind, table, tables)
    hint = _fields(owner).get(last)
    choices = list(get_args(hint)) if get_origin(hint) is Literal else []
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


def _place(keys: list[str]) -> str:
    """Name a table as a person would: `[data.train] number 2` for the second in a list."""
    names = [key for key in keys if not key.isdigit()]
    number = f" number {int(keys[-1]) + 1}" if keys and keys[-1].isdigit() else ""
    return f"[{'.'.join(names)}]{number}" if names else ""


def _default(owner: Any, name: str) -> str:
    """Return as a fix what a setting is if it is left out, or "" if that cannot be said."""
    fields = msgspec.structs.fields(owner) if owner is not None else ()
    for field in fields:
        if field.name == name and isinstance(field.default, bool | int | float | str | tuple):
            return f"leave it out for the default, `{name} = {json.dumps(field.default)}`"
    return ""


def _fields(struct: Any) -> dict[str, Any]:
    if struct is None:
        return {}
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


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
            continue  # all in a list are of one kind
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
