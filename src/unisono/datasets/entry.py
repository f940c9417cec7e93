"""The entry of a corpus: a TOML file that says what it is made of.

docs/how-to/corpora.md describes the format. Names in an entry become names of files, so they
are checked here, before anything else happens.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, get_args
from urllib.parse import unquote, urlsplit

import msgspec

from unisono.datasets.fetch import Remote
from unisono.datasets.fetch.remote import LONGEST_FILE_NAME
from unisono.errors import ConfigError, suggest
from unisono.small_files import PARSER_ERRORS, read_bytes, reason, toml_table

Role = Literal["train", "valid", "test"]
Format = Literal["lines", "sgml", "xml", "iwslt-tags", "tsv"]
Count = Annotated[int, msgspec.Meta(ge=0)]
ARCHIVES = (
    *(".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"),
    *(".tgz", ".tbz2", ".txz", ".tzst", ".zip"),
)
RESERVED = ("downloads", "lock.json", "unfinished.json", "data.toml")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class EntryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of an entry; unknown keys are refused."""


class File(EntryTable, frozen=True):
    """One download: its addresses, and the size and checksums that verify it."""

    name: str
    urls: tuple[str, ...]
    bytes: Count = 0
    sha256: str = ""
    md5: str = ""

    @property
    def checked(self) -> bool:
        """Return whether a checksum is known beforehand."""
        return bool(self.sha256 or self.md5)

    def remote(self, aliases: tuple[str, ...] = ()) -> Remote:
        """Return what the downloader needs to know."""
        return Remote(self.name, self.urls, self.bytes, self.sha256, self.md5, aliases)

    @property
    def url_names(self) -> set[str]:
        """Return the names a browser would save it under, if they have the same suffix."""
        names = {PurePosixPath(unquote(urlsplit(url).path)).name for url in self.urls}
        end = PurePosixPath(self.name).suffix
        possible = {name for name in names if len(name.encode()) <= LONGEST_FILE_NAME}
        return {name for name in possible if PurePosixPath(name).suffix == end} - {
            self.name,
            "",
        }


class Side(EntryTable, frozen=True):
    """Where one language of a set is: in a download, and in which members of an archive.

    Several members are joined in this order. `*` and `?` in a member stand for any
    characters; it must match exactly one file. `column` counts from 1, for `tsv`.
    """

    file: str
    members: tuple[str, ...] = ()
    column: Count = 0


class Set(EntryTable, frozen=True):
    """Two text files that belong together, line by line.

    `without_every = 23` leaves out every 23rd line, `only_every = 23` leaves out all others:
    two such sets from the same members share no line.
    """

    name: str
    role: Role
    sides: dict[str, Side]
    format: Format = "lines"
    pairs: Count = 0
    note: str = ""
    only_every: Count = 0
    without_every: Count = 0


class Entry(EntryTable, frozen=True):
    """A corpus: its source language first, then its target language."""

    name: str
    description: str
    languages: tuple[str, str]
    file: tuple[File, ...]
    set: tuple[Set, ...]
    licence: str = ""
    notes: tuple[str, ...] = ()

    def file_named(self, name: str) -> File:
        return next(file for file in self.file if file.name == name)

    def aliases(self, name: str) -> tuple[str, ...]:
        """Return the names in its addresses that no other download of the entry has."""
        others = [file for file in self.file if file.name != name]
        taken = {file.name for file in others}.union(*(file.url_names for file in others))
        return tuple(sorted(self.file_named(name).url_names - taken))

    @property
    def download_bytes(self) -> int:
        """Return the size of all downloads, or 0 if one of them is not known."""
        sizes = [file.bytes for file in self.file]
        return sum(sizes) if all(sizes) else 0

    def pairs(self, role: Role) -> int:
        """Return the pairs of all sets of a role, or 0 if one of them is not known."""
        counts = [item.pairs for item in self.set if item.role == role]
        return sum(counts) if all(counts) else 0


def recipe_of(item: Set, side: Side) -> str:
    """Say in words how a side is made; a set whose recipe changes is another set."""
    parts: list[str] = [item.format]
    if side.column:
        parts.append(f"column {side.column}")
    if item.only_every:
        parts.append(f"only every {item.only_every}th line")
    if item.without_every:
        parts.append(f"without every {item.without_every}th line")
    return ", ".join(parts)


def read_entry(path: Path) -> Entry:
    """Read and check the entry in a TOML file."""
    try:
        table = toml_table(read_bytes(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the entry cannot be read: {reason(error)}",
            where=str(path),
            fix="`unisono corpora list` shows the known names",
        ) from error
    except PARSER_ERRORS as error:
        raise ConfigError(
            f"not valid TOML: {reason(error)}",
            where=str(path),
            fix="docs/how-to/corpora.md has an example",
        ) from error
    return to_entry(table, where=str(path))


def to_entry(table: dict[str, Any], *, where: str) -> Entry:
    """Make an entry from a table; refuse one that contradicts itself."""
    _refuse_unknown(table, Entry, where)
    try:
        entry = msgspec.convert(table, Entry)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        key = place.strip("`").rpartition(".")[2]
        raise ConfigError(
            what.replace("`object`", "a table").replace("`array`", "a list"),
            where=f"{where} {place.strip('`').removeprefix('$').lstrip('.')}".strip(),
            fix=_CHOICES.get(key, "docs/how-to/corpora.md describes an entry"),
        ) from error
    for what in _contradictions(entry):
        raise ConfigError(what, where=where, fix="docs/how-to/corpora.md describes an entry")
    for file in entry.file:
        file.remote()  # refuses malformed addresses and checksums
    return entry


def _refuse_unknown(table: dict[str, Any], kind: type[EntryTable], where: str) -> None:
    known = kind.__struct_fields__
    for key, value in table.items():
        if key not in known:
            raise ConfigError(
                f"`{key}` is not a key of an entry's {kind.__name__.lower()}"
                if kind is not Entry
                else f"`{key}` is not a key of an entry",
                where=where,
                fix=suggest(key, known),
            )
        for inner, place in _tables_in(kind, key, value):
            _refuse_unknown(inner, _INNER[key], f"{where} {place}")


_CHOICES = {
    "role": f"write {', '.join(get_args(Role))}",
    "format": f"write {', '.join(get_args(Format))}; docs/how-to/corpora.md describes them",
}
_INNER: dict[str, type[EntryTable]] = {"file": File, "set": Set, "sides": Side}


def _tables_in(kind: type, key: str, value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables below `key`, each with its place in the file."""
    if kind is Entry and key in ("file", "set") and isinstance(value, list):
        for number, item in enumerate(value, 1):
            if isinstance(item, dict):
                yield item, f"[[{key}]] {item.get('name', f'number {number}')}"
    if kind is Set and key == "sides" and isinstance(value, dict):
        for language, item in value.items():
            if isinstance(item, dict):
                yield item, f"sides.{language}"


def _contradictions(entry: Entry) -> Iterator[str]:
    """Yield what is wrong with an entry whose keys and types are right."""
    if not _NAME.fullmatch(entry.name):
        yield _bad_name(entry.name)
    if entry.languages[0] == entry.languages[1]:
        yield f"both languages are `{entry.languages[0]}`"
    if not entry.set:
        yield "there is no [[set]]"
    for file in entry.file:
        yield from _wrong_with_file(file)
    for item in entry.set:
        yield from _wrong_with_set(item, entry)
    names = [file.name for file in entry.file]
    names += [f"{item.name}.{language}" for item in entry.set for language in entry.languages]
    for name, count in Counter([*map(str.lower, names), *RESERVED]).items():
        if count > 1:
            yield f"the file name `{name}` is used twice"


def _wrong_with_file(file: File) -> Iterator[str]:
    if not _NAME.fullmatch(file.name):
        yield _bad_name(file.name)
    if not file.urls:
        yield f"the file `{file.name}` has no urls"


def _wrong_with_set(item: Set, entry: Entry) -> Iterator[str]:
    if not _NAME.fullmatch(item.name):
        yield _bad_name(item.name)
    if set(item.sides) != set(entry.languages):
        yield (
            f"the set `{item.name}` has the sides {', '.join(item.sides) or 'none'} "
            f"instead of {' and '.join(entry.languages)}"
        )
    if 1 in (item.only_every, item.without_every) or item.only_every and item.without_every:
        yield f"the set `{item.name}`: set only_every or without_every, to 2 or more"
    for language, side in item.sides.items():
        if not _NAME.fullmatch(language):
            yield _bad_name(language)
        for what in _wrong_with_side(side, item, entry):
            yield f"the set `{item.name}`, side `{language}`: {what}"


def _wrong_with_side(side: Side, item: Set, entry: Entry) -> Iterator[str]:
    if side.file not in {file.name for file in entry.file}:
        yield f"there is no [[file]] called `{side.file}`"
    if bool(side.column) != (item.format == "tsv"):
        yield "the format tsv needs a `column`, and no other format has one"
    if bool(side.members) != side.file.endswith(ARCHIVES):
        yield (
            f"`{side.file}` is an archive, so `members` must name what to take"
            if not side.members
            else f"`{side.file}` is not an archive ({', '.join(ARCHIVES)}): leave `members` out"
        )
    if "" in side.members or len(set(side.members)) < len(side.members):
        yield "a member is empty or named twice"


def _bad_name(name: str) -> str:
    return f"`{name}` cannot be a name: letters, digits, dots, hyphens, underscores are allowed"
