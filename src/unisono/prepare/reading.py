"""Reading text files once: their lines, and on the way their size and hash.

Only a line feed ends a line; one carriage return before it goes too. Everything else that
some programs take for the end of a line (U+2028, U+0085, form feed …) is text.
"""

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path

from unisono.corpus.manifest import Input, TextFile
from unisono.errors import DataError
from unisono.prepare.inputs import RawPair

LINES_PER_BATCH = 10_000
_READ_BYTES = 1 << 20
_LONGEST_LINE = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class PairReader:
    """Two files, read side by side."""

    def __init__(self, raw: RawPair) -> None:
        self._raw = raw
        self._source, self._target = TextReader(raw.source), TextReader(raw.target)

    @property
    def bytes_read(self) -> int:
        """Return how much of both files has been read, as they lie there."""
        return self._source.bytes_read + self._target.bytes_read

    def batches(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield lines that belong together; refuse files of unequal or no length."""
        sources, targets = self._source.batches(), self._target.batches()
        while True:
            source, target = next(sources, []), next(targets, [])
            if len(source) != len(target):
                for _ in (*sources, *targets):
                    pass  # to tell both counts
                raise self._unequal()
            if not source:
                break
            yield source, target
        if self._source.lines == 0:
            raise self._empty(self._source)

    def record(self) -> Input:
        """Return what was read, once all of it has been."""
        source, target = self._source.record(), self._target.record()
        return Input(split=self._raw.split, source=source, target=target)

    def _unequal(self) -> DataError:
        for reader in (self._source, self._target):
            if reader.lines == 0:
                return self._empty(reader)
        counts = [f"{r.path} has {r.lines} lines" for r in (self._source, self._target)]
        return DataError(
            "; ".join(counts),
            where=self._raw.where,
            fix="line n of one must translate line n of the other: find where they part",
        )

    def _empty(self, reader: "TextReader") -> DataError:
        return DataError(
            f"{reader.path} is empty",
            where=self._raw.where,
            fix="name a file with text, or take the pair out of the settings",
        )


class TextReader:
    """One text file in UTF-8: plain, .gz or .xz."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.bytes_read = 0
        self._text_bytes = 0
        self._sha256 = hashlib.sha256()

    def batches(self) -> Iterator[list[str]]:
        """Yield the lines, `LINES_PER_BATCH` at a time."""
        waiting: list[str] = []
        for lines in self._portions():
            waiting += lines
            while len(waiting) >= LINES_PER_BATCH:
                self.lines += LINES_PER_BATCH
                yield waiting[:LINES_PER_BATCH]
                del waiting[:LINES_PER_BATCH]
        if waiting:
            self.lines += len(waiting)
            yield waiting

    def record(self) -> TextFile:
        """Return size and hash, once the file has been read to its end."""
        return TextFile(
            name=self.path.name,
            bytes=self.bytes_read,
            text_bytes=self._text_bytes,
            lines=self.lines,
            sha256=self._sha256.hexdigest(),
        )

    def _portions(self) -> Iterator[list[str]]:
        number = 1
        for portion in self._whole_lines():
            lines = self._decode(portion, number).replace("\r\n", "\n").split("\n")
            if not lines[-1]:
                lines.pop()
            number += len(lines)
            yield lines

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield portions of text that end where a line ends."""
        rest = b""
        for block in self._text():
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = block[end:]
            else:
                rest += block
            if len(rest) > _LONGEST_LINE:
                raise DataError(
                    f"a line of more than {_LONGEST_LINE} bytes",
                    where=str(self.path),
                    fix="name a text file with one sentence a line",
                )
        if rest:
            yield rest + b"\n"

    def _text(self) -> Iterator[bytes]:
        """Yield the text in blocks, unpacked, without a byte order mark."""
        mark = _BYTE_ORDER_MARK
        try:
            with self.path.open("rb", buffering=0) as file:
                counted = io.BufferedReader(_Counted(file, self), _READ_BYTES)
                with _unpacked(counted, self.path.suffix) as text:
                    while block := text.read(_READ_BYTES):
                        self._text_bytes += len(block)
                        yield block.removeprefix(mark)
                        mark = b""
                    while counted.read(_READ_BYTES):
                        pass  # what lies behind the packed text belongs to the hash
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            refused = isinstance(error, OSError) and error.errno is not None
            raise DataError(
                f"{self.path} cannot be read: {error}",
                where=f"{self.path}, after line {self.lines}",
                fix="check its permissions"
                if refused
                else "it is cut off, damaged or not packed at all: fetch it again",
            ) from error

    def _decode(self, portion: bytes, first_line: int) -> str:
        try:
            return portion.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first_line + portion.count(b"\n", 0, error.start)
            raise DataError(
                f"byte 0x{portion[error.start]:02x} is not UTF-8: {error.reason}",
                where=f"{self.path}, line {line}",
                fix="convert the file, for example: iconv -f latin1 -t utf-8",
            ) from error

    def count(self, data: memoryview) -> None:
        """Take note of some bytes of the file."""
        self.bytes_read += len(data)
        self._sha256.update(data)


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


def _unpacked(file: "io.BufferedReader[_Counted]", suffix: str) -> io.BufferedIOBase:
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=file)
    if suffix == ".xz":
        return lzma.LZMAFile(file)
    return file
