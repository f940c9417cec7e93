"""The directory a corpus goes to: ours alone while we write, and never over others' files."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.atomic import TEMPORARY
from unisono.datasets.lock_file import LOCK, UNFINISHED
from unisono.errors import DataError
from unisono.lock import lock

DOWNLOADS = "downloads"


@contextmanager
def claimed(directory: Path, texts: Iterable[str] = ()) -> Iterator[None]:
    """Create `directory` if need be and hold the right to write there.

    `texts` are the names that belong there, to know a directory that has lost its lock.

    The claim ends with the process that holds it, however that ends.
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
    """Refuse a directory that nobody has got a corpus into and that is not empty."""
    names = sorted(entry.name for entry in directory.iterdir())
    if LOCK in names or UNFINISHED in names:
        return
    strangers = [n for n in names if n != DOWNLOADS and not n.startswith(TEMPORARY)]
    if not set(strangers).isdisjoint(texts):
        raise DataError(
            f"the texts are there but {LOCK} is missing: nobody knows what they are",
            where=str(directory),
            fix="delete the directory, or name another with --to",
        )
    if strangers:
        raise DataError(
            f"{directory} holds something else: {', '.join(strangers[:3])}"
            + (" …" if len(strangers) > 3 else ""),
            where=str(directory),
            fix="name a new directory with --to",
        )


@contextmanager
def disk_trouble_explained(directory: Path) -> Iterator[None]:
    """Turn what the disk refuses into an error a person can act on."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise DataError(
            "the disk is full" if full else f"cannot write: {error.strerror or error}",
            where=str(error.filename or directory),
            fix="make room and call this again: it goes on where it stopped"
            if full
            else "check the permissions, or name another directory with --to",
        ) from error
