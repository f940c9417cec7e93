"""Read files that others may have damaged or replaced: only regular ones, of bounded size.

A FIFO would block its reader for ever, and a device never ends. What is wrong with a file is an
`OSError` from what opens it, and a `DataError` that names the file from what parses it.
"""

import errno
import io
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unisono.errors import DataError

T = TypeVar("T")
SMALL_BYTES = 64 * 2**20
TOML_BYTES = 1_000_000
# What parsers raise about damaged input; a number of 5,000 digits is a ValueError, too.
PARSER_ERRORS = (ValueError, msgspec.MsgspecError, RecursionError)
LONGEST_REASON = 200
_OF_SHELL = Path("/dev/fd")  # `<(command)` of a shell is a pipe that has a writer
# tomllib takes quadratic time over `a.a.a.a…`: no settings nest this deep.
_DEEP_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}"""
)


def open_regular(path: Path) -> io.BufferedReader:
    """Open `path` for reading if it is a regular file, and raise an `OSError` if it is not."""
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind) or (stat.S_ISFIFO(kind) and path.parent == _OF_SHELL):
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    os.close(handle)
    what = "a directory" if stat.S_ISDIR(kind) else "a pipe or a device"
    raise OSError(errno.EINVAL, f"it is {what}, not a file", str(path))


def open_to_write(path: Path, how: int) -> int:
    """Return a handle on the regular file `path`, which is made if it is missing.

    A link could lead to any file of the user, and a pipe would block: both are an `OSError`.
    """
    flags = how | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
    else:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
        os.close(handle)
    raise OSError(errno.EINVAL, "it is a link, a pipe or a device, not a file", str(path))


def read_bytes(path: Path, most: int = SMALL_BYTES) -> bytes:
    """Return the content of a regular file; raise an `OSError` if it has over `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has over {most:,} bytes", str(path))
    return data


def read_line(path: Path) -> str:
    """Return the only line of a file such as `latest`, or "" if it is missing or damaged."""
    try:
        return read_bytes(path, 4096).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def read_parsed(path: Path, parse: Callable[[bytes], T], *, fix: str = "") -> T:
    """Return what `parse` makes of a file; raise a `DataError` if the file is not sound."""
    try:
        return parse(read_bytes(path))
    except (OSError, *PARSER_ERRORS) as error:
        what = f"{path.name} cannot be read: {reason(error)}"
        raise DataError(what, where=str(path), fix=fix) from error


def reason(error: Exception) -> str:
    """Say in a few words what `error` found wrong with a file."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error) or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}…"


def json_table(data: bytes) -> dict[str, Any]:
    """Parse a JSON object."""
    return msgspec.json.decode(data, type=dict[str, Any])


def toml_table(data: bytes) -> dict[str, Any]:
    """Parse TOML of at most `TOML_BYTES`."""
    if len(data) > TOML_BYTES:
        raise ValueError(f"it has over {TOML_BYTES:,} bytes")
    text = data.decode("utf-8")
    if _DEEP_KEY.search(text):
        raise ValueError("it is nested too deeply")
    return tomllib.loads(text)


LONGEST_EVENT = 2**24


class LineWriter:
    """Append whole lines to a file, each in one system call: only the last can be torn."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_to_write(path, os.O_WRONLY | os.O_APPEND)
        if _ends_torn(path):
            os.write(self._file, b"\n")

    def write(self, line: bytes) -> None:
        """Append `line`, which contains no line break."""
        whole = line + b"\n"
        written = os.write(self._file, whole)
        if written < len(whole):  # the disk is full, or a limit is near; the next call says so
            os.write(self._file, whole[written:])

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of `path`; skip a last line without its line feed, and endless ones."""
    with open_regular(path) as file:
        while line := file.readline(LONGEST_EVENT):
            if line.endswith(b"\n") and line.strip():
                yield line


def _ends_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
