"""Read text files once, in chunks of whole lines, and compute their size and hash on the way.

Only a line feed ends a line. The reader decodes nothing: the worker processes do.
"""

import hashlib
import io
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from unisono.corpus.manifest import Input, TextFile
from unisono.decompress import COMPRESSIONS, DecompressionError, decompressed_blocks
from unisono.errors import DataError
from unisono.prepare.job import RawPair

LINES_PER_CHUNK = 16_384
_BYTES_PER_CHUNK = 1 << 23  # a side; lines may be long
_READ_BYTES = 1 << 20
_LONGEST_READ = 1 << 26  # longer lines are not even read; decode.py has the limit of a sentence
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
        """Return how many lines have been read and not taken."""
        return self._waiting_lines

    def fill(self, lines: int, size: int) -> None:
        """Read until `lines` lines wait, or at least one line and `size` bytes, or the end."""
        while not self.ended and self._waiting_lines < lines:
            if self._waiting_lines and self._waiting_bytes >= size:
                break
            if not self._waiting_lines and self._waiting_bytes > _LONGEST_READ:
                raise DataError(
                    f"a line of more than {_LONGEST_READ} bytes",
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
        """Add some bytes of the file to its size and hash."""
        self.bytes_read += len(data)
        self._sha256.update(data)

    def _read_block(self) -> None:
        block = next(self._text, None)
        if block is None:
            self.ended = True
            if not self._waiting_bytes or self._parts[-1][0].endswith(b"\n"):
                return
            block = b"\n"  # the last line has no line feed
        lines = block.count(b"\n")
        self._parts.append((block, lines))
        self._waiting_lines += lines
        self._waiting_bytes += len(block)

    def _blocks(self) -> Iterator[bytes]:
        """Yield the decompressed text, without a byte order mark."""
        start: bytes | None = b""
        suffix = self.path.suffix
        ignored = suffix in (".bz2", ".xz")  # as their own readers do in Python
        try:
            with self.path.open("rb", buffering=0) as file:
                counted = io.BufferedReader(_Counted(file, self), _READ_BYTES)
                for block in decompressed_blocks(counted, suffix, ignore_trailing=ignored):
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
                    pass  # bytes after the compressed text belong to the hash
        except (OSError, DecompressionError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        refused = isinstance(error, OSError)
        return DataError(
            f"{self.path} cannot be read: {error}",
            where=f"{self.path}, after line {self.lines + self._waiting_lines}",
            fix="check its permissions"
            if refused
            else "it is truncated, damaged or not compressed at all: fetch it again",
        )


def check_decompresses(path: Path) -> None:
    """Raise a DataError if `path` is a damaged compressed file; this reads all of it."""
    if path.suffix in COMPRESSIONS:
        reader = TextReader(path)
        while not reader.ended:
            reader.fill(1, 1)
            reader.take(reader.waiting)


class _Counted(io.RawIOBase):
    """A file that reports every byte it returns to a reader."""

    def __init__(self, file: io.FileIO, reader: TextReader) -> None:
        self._file, self._reader = file, reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = self._file.readinto(buffer)
        self._reader.count(memoryview(buffer)[:size])
        return size


@dataclass(frozen=True)
class Chunk:
    """Some lines of a source, the same number of both sides, not decoded.

    `text` has one entry for each of its files; `number` counts the chunks and `first_line`
    the lines before this one.
    """

    raw: RawPair
    number: int
    first_line: int
    text: tuple[bytes, ...]


class PairReader:
    """The files of a source, read side by side."""

    def __init__(self, raw: RawPair) -> None:
        self._raw = raw
        self._readers = [TextReader(path) for path in raw.files]

    @property
    def bytes_read(self) -> int:
        """Return how many bytes of the files on disk have been read."""
        return sum(reader.bytes_read for reader in self._readers)

    @property
    def pairs(self) -> int:
        """Return how many pairs the chunks so far hold."""
        return self._readers[0].lines

    def chunks(self, lines: int = 0) -> Iterator[Chunk]:
        """Yield all lines, at most `lines` at a time; refuse files of unequal or no length."""
        number, lines = 0, lines or LINES_PER_CHUNK
        while True:
            for reader in self._readers:
                reader.fill(lines, _BYTES_PER_CHUNK)
            count = min(lines, *(reader.waiting for reader in self._readers))
            if not count:
                break
            first_line = self.pairs
            text = tuple(reader.take(count) for reader in self._readers)
            yield Chunk(self._raw, number, first_line, text)
            number += 1
        if any(reader.waiting for reader in self._readers):
            raise self._unequal()
        if not self.pairs:
            raise self._empty(self._readers[0])

    def record(self) -> Input:
        """Return the size and hash of the files, once all chunks have been read."""
        records = [reader.record() for reader in self._readers]
        if self._raw.columns:
            # The same file twice, but its bytes once, so that sums are right.
            records.append(msgspec.structs.replace(records[0], bytes=0, text_bytes=0))
        return Input(
            split=self._raw.split,
            source=records[0],
            target=records[1],
            columns=list(self._raw.columns or ()),
            tag=self._raw.tag,
        )

    def _unequal(self) -> DataError:
        for reader in self._readers:
            while reader.waiting:  # so that the error has both counts
                reader.take(reader.waiting)
                reader.fill(LINES_PER_CHUNK, _BYTES_PER_CHUNK)
            if not reader.lines:
                return self._empty(reader)
        counts = [f"{reader.path} has {reader.lines} lines" for reader in self._readers]
        return DataError(
            "; ".join(counts),
            where=self._raw.where,
            fix="line n of one must translate line n of the other: find where they diverge",
        )

    def _empty(self, reader: TextReader) -> DataError:
        return DataError(
            f"{reader.path} is empty",
            where=self._raw.where,
            fix="name a file with text, or take the pair out of the settings",
        )
