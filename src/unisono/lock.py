"""One process at a time for one file or directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.errors import DataError


@contextmanager
def only_one(target: Path, *, doing: str, fix: str) -> Iterator[None]:
    """Hold the right to create `target`; refuse if another process is `doing` it already.

    The lock lies next to the target and ends with the process that holds it, however that
    ends.
    """
    lock = target.with_name(f".{target.name}.lock")
    handle = _locked(lock)
    if handle is None:
        raise DataError(f"another process is {doing}", where=str(target), fix=fix)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path) -> int | None:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        if _is_current(handle, lock):
            return handle
        os.close(handle)  # its last holder removed it between open and lock: try the next


def _is_current(handle: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), lock.stat())
    except FileNotFoundError:
        return False
