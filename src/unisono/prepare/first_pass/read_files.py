"""Reading text files once, in whole lines, and on the way their size and hash.

Only a line feed ends a line. Nothing is decoded here: that is the work of many.
"""

import hashlib
import io
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unisono.corpus.manifest import TextFile
from unisono.errors import DataError
from unisono.prepare.first_pass.decompress import DAMAGED, PACKED, unpacked

_READ_BYTES = 1 << 20
_LONGEST_LINE = 1 << 26  # of those that are read at all, and then refused or dropped
_LINE_FEED = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextReader:
    """One text file: plain, .gz, .bz2, .xz or .zst."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.bytes_read = 0
        self.ended = False
        self._text_bytes = 0
        self._sha256 = hashlib.sha256()
        self._text = self._blocks()
        self._parts: deque[tuple[bytes, int]] = deque()
        self._waiting_lines = self._waiting_bytes = 0

    @property
    def waiting(self) -> int:
        """Return how many lines can be taken."""
        return self._waiting_lines

    def fill(self, lines: int, size: int) -> None:
        """Read until `lines` lines wait, or at least one and `size` bytes, or the end."""
        while not self.ended and self._waiting_lines < lines:
            if self._waiting_lines and self._waiting_bytes >= size:
                break
            if not self._waiting_lines and self._waiting_bytes > _LONGEST_LINE:
                raise DataError(
                    f"a line of more than {_LONGEST_LINE} bytes",
                    where=f"{self.path}, line {self.lines + 1}",
                    fix="name a text file with one sentence a line",
                )
            self._read_block()

    def take(self, lines: int) -> bytes:
        """Return the next `lines` lines, each with its line feed."""
        taken, missing = [], lines
        while missing:
            part, count = self._parts.popleft()
            if count >= missing:
                ends = np.flatnonzero(np.frombuffer(part, np.uint8) == _LINE_FEED)
                end = int(ends[missing - 1]) + 1
                self._parts.appendleft((part[end:], count - missing))
                part, count = part[:end], missing
            taken.append(part)
            missing -= count
        text = b"".join(taken)
        self._waiting_lines -= lines
        self._waiting_bytes -= len(text)
        self.lines += lines
        return text

    def record(self) -> TextFile:
        """Return size and hash, once the file has been read to its end."""
        return TextFile(
            name=self.path.name,
            bytes=self.bytes_read,
            text_bytes=self._text_bytes,
            lines=self.lines,
            sha256=self._sha256.hexdigest(),
        )

    def count(self, data: memoryview) -> None:
        """Take note of some bytes of the file."""
        self.bytes_read += len(data)
        self._sha256.update(data)

    def _read_block(self) -> None:
        block = next(self._text, None)
        if block is None:
            self.ended = True
            if not self._waiting_bytes or self._parts[-1][0].endswith(b"\n"):
                return
            block = b"\n"  # the last line has no end of its own
        lines = block.count(b"\n")
        self._parts.append((block, lines))
        self._waiting_lines += lines
        self._waiting_bytes += len(block)

    def _blocks(self) -> Iterator[bytes]:
        """Yield the text, unpacked, without a byte order mark."""
        start: bytes | None = b""
        try:
            with self.path.open("rb", buffering=0) as file:
                counted = io.BufferedReader(_Counted(file, self), _READ_BYTES)
                for block in unpacked(counted, self.path.suffix):
                    self._text_bytes += len(block)
                    if start is None:
                        yield block
                        continue
                    start += block
                    if len(start) >= len(_BYTE_ORDER_MARK):
                        yield start.removeprefix(_BYTE_ORDER_MARK)
                        start = None
                if start:
                    yield start
                while counted.read(_READ_BYTES):
                    pass  # what lies behind the packed text belongs to the hash
        except (OSError, *DAMAGED) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        refused = isinstance(error, OSError) and error.errno is not None
        return DataError(
            f"{self.path} cannot be read: {error}",
            where=f"{self.path}, after line {self.lines + self._waiting_lines}",
            fix="check its permissions"
            if refused
            else "it is cut off, damaged or not packed at all: fetch it again",
        )


def check_unpacks(path: Path) -> None:
    """Raise a DataError if `path` is a packed file that is damaged; this reads all of it."""
    if path.suffix in PACKED:
        reader = TextReader(path)
        while not reader.ended:
            reader.fill(1, 1)
            reader.take(reader.waiting)


class _Counted(io.RawIOBase):
    """A file that tells a reader about every byte it hands out."""

    def __init__(self, file: io.FileIO, reader: TextReader) -> None:
        self._file, self._reader = file, reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = self._file.readinto(buffer)
        self._reader.count(memoryview(buffer)[:size])
        return size
