"""The directory of a corpus: what lock.json records, data.toml, and who may write there.

`lock.json` (format 1) says what lies in the directory and where it came from; a directory
that is not complete has `unfinished.json` instead.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from unisono.atomic import TEMPORARY, sync, write_bytes
from unisono.datasets.entry import Entry, File, Set, recipe_of
from unisono.errors import DataError
from unisono.lock import lock
from unisono.small_files import PARSER_ERRORS, read_bytes, reason

LOCK = "lock.json"
UNFINISHED = "unfinished.json"
FORMAT = 1


class Download(msgspec.Struct, frozen=True):
    """A downloaded file; `trust` says whether its hash was known beforehand.

    Without a `sha256` only its address is recorded: no text was made of it yet.
    """

    name: str
    url: str
    bytes: int
    sha256: str
    md5: str
    trust: Literal["checked", "first use"]


class Text(msgspec.Struct, frozen=True):
    """A text file that was made from a download."""

    name: str
    set: str
    role: str
    language: str
    bytes: int
    lines: int
    sha256: str
    download: str
    members: tuple[str, ...]
    recipe: str


class Lock(msgspec.Struct, frozen=True):
    """All downloads and texts of a directory, by name."""

    format: int = FORMAT
    corpus: str = ""
    downloads: dict[str, Download] = {}
    texts: dict[str, Text] = {}
    data_toml: str = ""


def read_lock(directory: Path) -> Lock:
    """Return what the directory records, finished or not; an empty lock if it is new."""
    for name in (LOCK, UNFINISHED):
        path = directory / name
        try:
            lock = msgspec.json.decode(read_bytes(path), type=Lock)
        except FileNotFoundError:
            continue
        except (OSError, *PARSER_ERRORS) as error:
            raise DataError(
                f"{name} is damaged: {reason(error)}",
                where=str(path),
                fix="delete all of the directory but downloads/, and get the corpus again",
            ) from error
        if lock.format > FORMAT:
            raise DataError(
                f"{name} has format {lock.format}; this version reads up to {FORMAT}",
                where=str(path),
                fix="update Unisono, or name another directory",
            )
        return lock
    return Lock()


def write_lock(directory: Path, lock: Lock, *, finished: bool) -> None:
    """Record the state; a directory has `lock.json` only once it is complete."""
    data = msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"
    if not finished and not (directory / LOCK).exists():
        write_bytes(directory / UNFINISHED, data)
        return
    write_bytes(directory / LOCK, data)
    (directory / UNFINISHED).unlink(missing_ok=True)
    sync(directory)


DATA_TOML = "data.toml"


def data_section(entry: Entry, sets: Iterable[Set], directory: Path) -> str:
    """Return a [data] section for `sets`, with the first validation and the first test set."""
    source, target = entry.languages
    there = list(sets)
    lines = [
        f"# {entry.name}: {entry.description}",
        "# Paths are relative to the directory you start `unisono` in.",
        "",
        "[data]",
        f"source_language = {_quoted(source)}",
        f"target_language = {_quoted(target)}",
    ]
    for item in there:
        if item.role == "train":
            lines += ["", "[[data.train]]", *_pair(item, entry, directory)]
    for role in ("valid", "test"):
        found = [item for item in there if item.role == role]
        if not found:
            lines += ["", f"# [data.{role}]: this corpus has no such set; name your own"]
            continue
        lines += ["", f"[data.{role}]", *_pair(found[0], entry, directory)]
        lines += [f"# or {item.name}{_note(item)}" for item in found[1:]]
    return "\n".join(lines) + "\n"


def _pair(item: Set, entry: Entry, directory: Path) -> Iterator[str]:
    if item.note:
        yield f"# {item.note}"
    for side, language in zip(("source", "target"), entry.languages, strict=True):
        yield f"{side} = {_quoted(str(directory / f'{item.name}.{language}'))}"


def _note(item: Set) -> str:
    return f": {item.note}" if item.note else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # also a string of TOML


def changes(entry: Entry, lock: Lock) -> list[str]:
    """Describe how `entry` differs from `lock`; addresses may differ."""
    return [*_of_downloads(entry, lock), *_of_texts(entry, lock)]


def confirmed(entry: Entry, lock: Lock) -> Lock:
    """Mark the downloads as checked for which the entry has a checksum by now."""
    named = {file.name for file in entry.file if file.checked}
    downloads = {
        name: msgspec.structs.replace(known, trust="checked")
        if name in named and known.sha256
        else known
        for name, known in lock.downloads.items()
    }
    return msgspec.structs.replace(lock, downloads=downloads)


def _of_downloads(entry: Entry, lock: Lock) -> Iterator[str]:
    for file in entry.file:
        known = lock.downloads.get(file.name)
        if known is not None and known.sha256:
            yield from _of_download(file, known)


def _of_download(file: File, known: Download) -> Iterator[str]:
    if file.bytes not in (0, known.bytes):
        yield f"{file.name} with {file.bytes:,} bytes, before {known.bytes:,}"
    if file.sha256 not in ("", known.sha256):
        yield f"{file.name} with SHA-256 {file.sha256}, before {known.sha256}"
    if file.md5 not in ("", known.md5):
        yield f"{file.name} with MD5 {file.md5}, before {known.md5}"


def _of_texts(entry: Entry, lock: Lock) -> Iterator[str]:
    sets = {item.name: item for item in entry.set}
    for text in lock.texts.values():
        item = sets.get(text.set)
        if item is None or text.language not in item.sides:
            yield f"{text.name} is not in the entry any more"
        else:
            yield from _of_text(item, text)


def _of_text(item: Set, text: Text) -> Iterator[str]:
    side = item.sides[text.language]
    pairs = item.pairs or text.lines
    found: dict[str, tuple[object, object]] = {
        "role": (item.role, text.role),
        "pairs": (f"{pairs:,}", f"{text.lines:,}"),
        "file": (side.file, text.download),
        "members": (", ".join(side.members), ", ".join(text.members)),
        "format": (recipe_of(item, side), text.recipe),
    }
    for what, (now, before) in found.items():
        if now != before:
            yield f"{text.name}: {what} {now or 'none'}, before {before or 'none'}"


DOWNLOADS = "downloads"


@contextmanager
def claimed(directory: Path, texts: Iterable[str] = ()) -> Iterator[None]:
    """Create `directory` if need be, and lock it against other processes.

    `texts` names the files that belong there: they reveal a directory without its lock.json.
    """
    if directory.exists() and not directory.is_dir():
        raise DataError(
            f"{directory} is a file", where=str(directory), fix="name a directory with --to"
        )
    with disk_trouble_explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
        refuse_strangers(directory, texts)
        handle = os.open(directory, os.O_RDONLY)
    try:
        _claim(handle, directory)
        yield
    finally:
        os.close(handle)


def _claim(handle: int, directory: Path) -> None:
    try:
        lock(handle)
    except BlockingIOError as error:
        raise DataError(
            f"another process is getting a corpus into {directory}",
            where=str(directory),
            fix="wait until it has finished, or name another directory with --to",
        ) from error


def refuse_strangers(directory: Path, texts: Iterable[str]) -> None:
    """Refuse a directory with files that are not those of a corpus."""
    names = sorted(entry.name for entry in directory.iterdir())
    if LOCK in names or UNFINISHED in names:
        return
    strangers = [n for n in names if n != DOWNLOADS and not n.startswith(TEMPORARY)]
    if not set(strangers).isdisjoint(texts):
        raise DataError(
            f"the texts are there but {LOCK} is missing, so they cannot be verified",
            where=str(directory),
            fix="delete the directory, or name another with --to",
        )
    if strangers:
        raise DataError(
            f"{directory} holds other files: {', '.join(strangers[:3])}"
            + (" …" if len(strangers) > 3 else ""),
            where=str(directory),
            fix="name a new directory with --to",
        )


@contextmanager
def disk_trouble_explained(directory: Path) -> Iterator[None]:
    """Turn an OSError into an error that says what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise DataError(
            "the disk is full" if full else f"cannot write: {error.strerror or error}",
            where=str(error.filename or directory),
            fix="make room and repeat the command: it continues where it stopped"
            if full
            else "check the permissions, or name another directory with --to",
        ) from error
