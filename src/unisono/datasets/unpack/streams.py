"""Packed bytes to plain bytes, with a bound on what may come out and on the memory it takes."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import zstandard

from unisono.errors import DataError

READ_BYTES = 1 << 20
RATIO = 50
ALLOWANCE = 16 << 20
MOST = 200 << 30
_XZ_MEMORY = 256 << 20
_ZSTD_WINDOW = 128 << 20
# A block of 4 bytes may stand for 128 KiB, and all that a piece holds comes out at once.
_ZSTD_PIECE = 2048

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError)


def unpacked_limit(packed_bytes: int) -> int:
    """Return how many bytes an archive of this size may unpack to.

    Text packs to a third or a tenth. Fifty times is no text but a bomb.
    """
    return min(RATIO * packed_bytes + ALLOWANCE, MOST)


class Decompressor(Protocol):
    """What bz2 and lzma offer."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _Zstd:
    """Zstandard with the interface of bz2 and lzma: small pieces in, so little comes out."""

    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame: Any = decompressor.decompressobj()
        self._waiting = b""
        self._ready = memoryview(b"")

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof) and not self._ready

    @property
    def needs_input(self) -> bool:
        return not self._waiting and not self._ready

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self._waiting

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        self._waiting += data
        if not self._ready and not self._frame.eof:
            piece, self._waiting = self._waiting[:_ZSTD_PIECE], self._waiting[_ZSTD_PIECE:]
            self._ready = memoryview(self._frame.decompress(piece))
        out, self._ready = self._ready[:max_length], self._ready[max_length:]
        return bytes(out)


class _Unpacked(io.RawIOBase):
    """The plain bytes of a packed file, of any number of packed streams one after another."""

    def __init__(self, packed: BinaryIO, new: Callable[[], Decompressor]) -> None:
        self._packed, self._new, self._stream = packed, new, new()
        self._fresh = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _some(self, size: int) -> bytes:
        rest = b""
        while True:
            if self._stream.eof:
                rest = self._stream.unused_data
                self._stream, self._fresh = self._new(), True
            if not rest and self._stream.needs_input:
                rest = self._packed.read(1 << 16)
                if not rest and self._fresh:
                    return b""
                if not rest:
                    raise EOFError("the packed text ends in the middle")
            self._fresh = False
            data = self._stream.decompress(rest, size)
            rest = b""
            if data:
                return data


class Bounded(io.RawIOBase):
    """A stream that refuses to give more than `limit` bytes."""

    def __init__(self, stream: BinaryIO, limit: int, archive: Path) -> None:
        self._stream, self._left, self._limit, self._archive = stream, limit, limit, archive

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), READ_BYTES))
        self._left -= len(data)
        if self._left < 0:
            raise too_much(self._archive, self._limit)
        buffer[: len(data)] = data
        return len(data)


def too_much(archive: Path, limit: int) -> DataError:
    """Return the error for an archive that unpacks to more than `limit` bytes."""
    return DataError(
        f"{archive.name} unpacks to more than {limit:,} bytes: it is no text, it is a trap",
        where=str(archive),
        fix="do not use this file; get it from another place",
    )


def _buffered(packed: BinaryIO, new: Callable[[], Decompressor]) -> BinaryIO:
    return io.BufferedReader(_Unpacked(packed, new), READ_BYTES)


def _xz() -> Decompressor:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


PACKINGS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda packed: gzip.GzipFile(fileobj=packed),  # type: ignore[dict-item,return-value]
    ".bz2": lambda packed: _buffered(packed, bz2.BZ2Decompressor),
    ".xz": lambda packed: _buffered(packed, _xz),
    ".zst": lambda packed: _buffered(packed, _Zstd),
}


def open_unpacked(packed: BinaryIO, suffix: str, archive: Path) -> BinaryIO:
    """Return the plain bytes of `packed`; `suffix` says how it is packed, "" not at all."""
    limit = unpacked_limit(archive.stat().st_size)
    plain = PACKINGS[suffix](packed) if suffix else packed
    return io.BufferedReader(Bounded(plain, limit, archive), READ_BYTES)
