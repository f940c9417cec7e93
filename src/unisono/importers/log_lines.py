"""Read the lines of a log that may be compressed, cut off, coloured or written by several."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

from unisono.decompress import DecompressionError, compression_of, decompressed_blocks
from unisono.errors import DataError

LONGEST = 1 << 16  # bytes of a line that are looked at
BROKEN = "…"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# What `mpirun --tag-output` and horovodrun put in front: [job,rank]<stream>: and a clock.
_TAG = re.compile(
    r"^(?:\w{3} \w{3} +\d+ [\d:]{8} \d{4})?\[\d+,(\d+)\](?:<(?:stdout|stderr)>)?:"
)
_DIGITS = re.compile(r"[\d.](?!\d{3}-\d\d-\d\d )")  # not a date


def log_lines(path: Path) -> Iterator[str]:
    """Yield the lines of the log at `path`, without colours and tags, in bounded memory.

    A carriage return ends a line, too. The last line is passed over if it has no end, and of a
    very long one only the beginning is seen. A line that goes on with digits in the next one,
    as a narrow terminal breaks it, has `BROKEN` at its end: its last number is not whole.
    """
    with _opened(path) as file:
        before = None
        for data in _whole_lines(file, path):
            line = _plain(data.decode("utf-8", "replace"))
            if before is not None:
                yield before + BROKEN if _DIGITS.match(line) else before
            before = line
        if before is not None:
            yield before


def _opened(path: Path) -> io.BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}", where=str(path), fix="name a log"
        ) from error


def _whole_lines(file: io.BufferedReader, path: Path) -> Iterator[bytes]:
    rest = b""
    try:
        for block in decompressed_blocks(file, compression_of(file.peek(8))):
            *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            yield from (line[:LONGEST] for line in lines if line)
            rest = rest[:LONGEST]
    except DecompressionError:
        return  # The file is cut off or damaged: the lines before that count.
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", where=str(path)) from error


def _plain(line: str) -> str:
    return _TAG.sub("", _ANSI.sub("", line) if "\x1b" in line else line)
