"""File locks: one process at a time for one file or directory.

The locks are those of flock. They end with the process that holds them, however it ends.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.errors import DataError

_PAUSE_SECONDS = 0.05


def lock(handle: int, *, attempts: int = 1) -> None:
    """Lock an open file until it is closed; raise BlockingIOError if another process has it.

    Several attempts, 50 ms apart, outlast those who call `is_locked` meanwhile.
    """
    for attempt in range(1, attempts + 1):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt == attempts:
                raise
            time.sleep(_PAUSE_SECONDS)


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds the lock of `path`.

    None if there is no such file, or its file system has no locks.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(handle)


@contextmanager
def only_one(target: Path, *, doing: str, fix: str) -> Iterator[None]:
    """Hold the right to create `target`; refuse if another process is `doing` it already.

    The lock is a file next to the target.
    """
    path = target.with_name(f".{target.name}.lock")
    try:
        handle = _locked_file(path)
    except BlockingIOError as error:
        raise DataError(f"another process is {doing}", where=str(target), fix=fix) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _locked_file(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock(handle)
        except BlockingIOError:
            os.close(handle)
            raise
        if _is_current(handle, path):
            return handle
        os.close(handle)  # Its last holder removed it between open and lock: try the next.


def _is_current(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
