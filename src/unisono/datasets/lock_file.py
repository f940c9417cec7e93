"""What lies in a corpus directory and where it came from: `lock.json`, format 1."""

from pathlib import Path
from typing import Literal

import msgspec

from unisono.atomic import sync, write_bytes
from unisono.errors import DataError

LOCK = "lock.json"
UNFINISHED = "unfinished.json"
FORMAT = 1


class Download(msgspec.Struct, frozen=True):
    """A file that was fetched. `trust` says whether its hash was known beforehand.

    Without a `sha256` it is only noted where it came from: nothing was made of it yet.
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
            lock = msgspec.json.decode(path.read_bytes(), type=Lock)
        except FileNotFoundError:
            continue
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise DataError(
                f"{name} is damaged: {error}",
                where=str(path),
                fix="delete the directory but its downloads/, and get the corpus again",
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
    """Record the state; a directory has `lock.json` only when everything is there."""
    data = msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"
    if not finished and not (directory / LOCK).exists():
        write_bytes(directory / UNFINISHED, data)
        return
    write_bytes(directory / LOCK, data)
    (directory / UNFINISHED).unlink(missing_ok=True)
    sync(directory)
