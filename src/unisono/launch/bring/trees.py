"""Directories that were brought to a machine, each under a name made from its content.

`brought/NAME.json` lists the files of the directory `NAME`, and is written before the first of
them: so what was brought is known even if it never became whole. Only Python's own library.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unisono.launch.bring.bootstrap import BROUGHT, UNFINISHED

HASH_BYTES = 1 << 20
# A file: its name below the directory, its bytes, its SHA-256.
FileEntry = tuple[str, int, str]


def tree_hash(files: list[FileEntry]) -> str:
    """Return the hash of a directory's names and contents."""
    total = hashlib.sha256()
    for name, _, digest in sorted(files):
        total.update(f"{name}\0{digest}\n".encode())
    return total.hexdigest()


def is_safe_name(name: str) -> bool:
    """Return whether a file's name stays below its directory."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Trees:
    """The directories below `base` that were brought, or are on their way."""

    def __init__(self, base: Path) -> None:
        self.base, self.unfinished = base, base / UNFINISHED
        for directory in (self.unfinished, base / BROUGHT):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def listing(self, tree: str) -> Path:
        """Return the file that lists a directory."""
        return self.base / BROUGHT / f"{tree}.json"

    def names(self) -> list[str]:
        """Return the names of all directories that are listed."""
        return sorted(path.stem for path in (self.base / BROUGHT).glob("*.json"))

    def read(self, tree: str) -> dict[str, list[Any]]:
        """Return what is listed for a directory: for each file size, hash and signature."""
        try:
            found = json.loads(self.listing(tree).read_bytes())["files"]
        except (OSError, ValueError, KeyError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, tree: str, files: dict[str, list[Any]]) -> None:
        """List the files of a directory."""
        temporary = self.unfinished / f"{tree}.json"
        temporary.write_text(json.dumps({"files": files}), "utf-8")
        temporary.replace(self.listing(tree))

    def missing(self, tree: str, files: list[FileEntry]) -> list[FileEntry]:
        """List `files` as those of `tree`; return those that are missing or changed."""
        listed, missing = self.compared(tree, files)
        if listed != self.read(tree):
            self.write(tree, listed)
        return missing

    def compared(
        self, tree: str, files: list[FileEntry]
    ) -> tuple[dict[str, list[Any]], list[FileEntry]]:
        """Return a listing of `files`, and those that are missing or changed; write nothing."""
        before = self.read(tree)
        listed: dict[str, list[Any]] = {}
        missing = []
        for name, size, digest in files:
            path = self.base / tree / name
            known = before.get(name, [])
            if len(known) > 2 and known == [size, digest, *_signature(path)]:
                listed[name] = known
            elif _is_whole(path, size, digest):
                listed[name] = [size, digest, *_signature(path)]
            else:
                listed[name] = [size, digest]
                missing.append((name, size, digest))
        return listed, missing

    def find(self, size: int, digest: str) -> Path | None:
        """Return an unchanged file with this content in any directory."""
        for tree in self.names():
            for name, known in self.read(tree).items():
                path = self.base / tree / name
                if len(known) > 2 and known == [size, digest, *_signature(path)]:
                    return path
        return None

    def source(self, digest: str, size: int) -> Path | None:
        """Return the file with a content that is in its place, has arrived, or is arriving."""
        arrived, part = self.unfinished / digest, self.unfinished / f"{digest}.part"
        return next((one for one in (arrived, part) if one.is_file()), self.find(size, digest))

    def place(self, tree: str, files: list[FileEntry]) -> None:
        """Move files that have arrived to their places in `tree`."""
        missing = self.missing(tree, files)
        for number, (name, _, digest) in enumerate(missing):
            path, arrived = self.base / tree / name, self.unfinished / digest
            path.parent.mkdir(parents=True, exist_ok=True)
            if any(digest == other for _, _, other in missing[number + 1 :]):
                copy = self.unfinished / f"{digest}.copy"
                shutil.copyfile(arrived, copy)
                copy.replace(path)
            else:
                arrived.replace(path)
        if left := self.missing(tree, files):
            raise ValueError(f"{left[0][0]} is not there as it should be")

    def forget(self, tree: str) -> None:
        """Remove what is listed for a directory, and its listing."""
        for name in self.read(tree):
            path = self.base / tree / name
            path.unlink(missing_ok=True)
            for compiled in compiled_of(path):
                compiled.unlink(missing_ok=True)
        for directory in sorted(_directories(self.base / tree), reverse=True):
            if not any(directory.iterdir()):
                directory.rmdir()
        self.listing(tree).unlink(missing_ok=True)


def compiled_of(path: Path) -> list[Path]:
    """Return what Python has compiled from the file at `path`."""
    if path.suffix != ".py":
        return []
    cache = path.parent / "__pycache__"
    return [one for one in cache.glob("*.pyc") if one.name.partition(".")[0] == path.stem]


def _directories(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        yield path
        for place, names, _ in os.walk(path):
            yield from (Path(place, name) for name in names)


def _signature(path: Path) -> list[int]:
    """Return what changes with a file's content, without reading it; nothing if it is gone."""
    try:
        found = path.lstat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _is_whole(path: Path, size: int, digest: str) -> bool:
    try:
        found = path.lstat()
        return found.st_size == size and not path.is_symlink() and hash_of(path) == digest
    except OSError:
        return False
