"""One download at a time for one file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.errors import DataError


@contextmanager
def only_one(target: Path) -> Iterator[None]:
    """Hold the right to create `target`; refuse if another process holds it.

    The lock lies next to the file and ends with the process that holds it, however that
    ends.
    """
    lock = target.with_name(f".{target.name}.lock")
    handle = _locked(lock, target)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path, target: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise DataError(
                f"another process is downloading {target.name}",
                where=str(target),
                fix="wait until it has finished, then call this again",
            ) from None
        if _is_current(handle, lock):
            return handle
        os.close(handle)  # its last holder removed it between open and lock: try the next


def _is_current(handle: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), lock.stat())
    except FileNotFoundError:
        return False
