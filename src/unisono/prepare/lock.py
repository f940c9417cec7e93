"""One preparation at a time for one corpus directory."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.atomic import TEMPORARY
from unisono.errors import DataError


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the right to create the directory `path`; refuse if another process holds it.

    The lock lies next to the directory and ends with the process that holds it, however
    that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    handle = _locked(lock, path)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path, path: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise DataError(
                f"another process is preparing {path}",
                where=str(path),
                fix="wait until it has finished, or choose another corpus.directory",
            ) from None
        if _is_current(handle, lock):
            return handle
        os.close(handle)  # its last holder removed it between open and lock: try the next


def _is_current(handle: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), lock.stat())
    except FileNotFoundError:
        return False


def remove_leftovers(path: Path) -> None:
    """Remove what killed preparations of `path` left, and of no other corpus next to it."""
    leftover = re.compile(re.escape(f"{TEMPORARY}{path.name}-") + r"\d+")
    for entry in path.parent.iterdir():
        if leftover.fullmatch(entry.name):
            shutil.rmtree(entry)
