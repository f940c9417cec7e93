"""Write files and directories completely or not at all, even in a power cut.

The order is always the same: write under a temporary name, force it to the disk, rename,
force the rename to the disk.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unisono.small_files import open_regular

TEMPORARY = ".tmp-"


def sync(path: Path) -> None:
    """Force a file or a directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write `data` to `path`; a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    temporary.rename(path)
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in UTF-8, atomically."""
    write_bytes(path, text.encode("utf-8"))


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory that becomes `path` if the block succeeds.

    `path` must not exist. If the block fails, nothing is left behind; if the process is
    killed, a name that starts with `TEMPORARY`, which `clean` removes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for entry in sorted(temporary.rglob("*")):
            sync(entry)
        sync(temporary)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync(path.parent)


def clean(directory: Path) -> None:
    """Remove the unfinished files and directories of killed writers from `directory`."""
    for entry in directory.glob(f"{TEMPORARY}*"):
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Written:
    """Size and SHA-256 of a file, as the manifests of all formats record them."""

    bytes: int
    sha256: str


def written(path: Path) -> Written:
    """Return the size and hash of the file at `path`."""
    return Written(path.stat().st_size, sha256_of(path))


def difference(path: Path, expected: Written, *, content: bool = True) -> str:
    """Describe how the file at `path` differs from `expected`, or return "".

    Without `content` only the size is compared, and the file is not read.
    """
    try:
        if not path.is_file():
            return "it is missing"
        size = path.stat().st_size
        if size != expected.bytes:
            return f"it has {size} bytes instead of {expected.bytes}"
        if content and sha256_of(path) != expected.sha256:
            return "its SHA-256 differs from that in the manifest"
    except OSError as error:  # a name that no file can have, or one that may not be read
        return f"it cannot be read: {error.strerror}"
    return ""
