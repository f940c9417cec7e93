"""Decompress .gz, .bz2, .xz and .zst streams in bounded memory.

All four formats read the same way: streams may follow one another in a file, zero bytes behind
a stream are padding, and damage raises a `DecompressionError` after the reader has received
the bytes before it.
"""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

import zstandard

BLOCK_BYTES = 1 << 20
_XZ_MEMORY = 256 << 20
_ZSTD_WINDOW = 128 << 20
# The decoder of zstd returns all that its input expands to, up to 32,768 bytes for each byte.
_PACKED_BYTES = {".zst": 2048}
_GZIP_HEADER = 31  # the code by which zlib expects the header and trailer of gzip
_FIRST_BYTES = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\x00",
    ".zst": b"\x28\xb5\x2f\xfd",
}
# How much text a compressed byte is likely to hold, at least.
_TEXT_PER_BYTE = {".gz": 2.5, ".bz2": 3.0, ".xz": 3.0, ".zst": 2.5}


class DecompressionError(Exception):
    """Compressed data is cut off, damaged or not of its format."""


class Decompressor(Protocol):
    """The interface of the decompressors in bz2 and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _Gzip:
    """zlib with the interface of bz2 and lzma."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_HEADER)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        # After a full block zlib may hold more output, even if it has taken all its input.
        return not self._is_full and not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        out = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self._is_full = len(out) == max_length
        return out


class _Zstd:
    """zstandard with the interface of bz2 and lzma."""

    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame = decompressor.decompressobj()
        self._ready = memoryview(b"")

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof) and not self._ready

    @property
    def needs_input(self) -> bool:
        return not self._ready

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if data:
            self._ready = memoryview(self._frame.decompress(data))
        out, self._ready = self._ready[:max_length], self._ready[max_length:]
        return bytes(out)


_DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    ".gz": _Gzip,
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY),
    ".zst": _Zstd,
}
COMPRESSIONS = tuple(_DECOMPRESSORS)


class DecompressedFile(io.RawIOBase):
    """The decompressed bytes of a file; `suffix` is one of `COMPRESSIONS`.

    Bytes behind a stream that begin no other are an error, unless `ignore_trailing`.
    """

    def __init__(
        self,
        packed: io.BufferedIOBase | BinaryIO,
        suffix: str,
        *,
        ignore_trailing: bool = False,
    ) -> None:
        self._packed, self._suffix, self._ignore_trailing = packed, suffix, ignore_trailing
        self._stream = _DECOMPRESSORS[suffix]()
        self._at_end = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = b""
        while not data and not self._at_end:
            packed = self._next_packed()
            if not self._at_end:
                data = self._decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _decompress(self, packed: bytes, size: int) -> bytes:
        try:
            return self._stream.decompress(packed, size)
        # bz2 has no error of its own.
        except (OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            raise DecompressionError(str(error)) from error

    def _next_packed(self) -> bytes:
        """Return what the decompressor needs next, b"" if it still has more to give."""
        if self._stream.eof:
            return self._next_stream()
        if not self._stream.needs_input:
            return b""
        packed = self._read()
        if not packed:
            raise DecompressionError("the compressed data is cut off")
        return packed

    def _next_stream(self) -> bytes:
        """Begin the stream behind the one that ended, and return its first bytes."""
        packed = self._stream.unused_data.lstrip(b"\0")
        while not packed and (more := self._read()):
            packed = more.lstrip(b"\0")
        start = _FIRST_BYTES[self._suffix]
        is_other = not start.startswith(packed[: len(start)])
        self._at_end = not packed or (self._ignore_trailing and is_other)
        self._stream = _DECOMPRESSORS[self._suffix]()
        return packed

    def _read(self) -> bytes:
        return self._packed.read(_PACKED_BYTES.get(self._suffix, 1 << 16))


def decompressed_blocks(
    file: io.BufferedIOBase, suffix: str, *, ignore_trailing: bool = False
) -> Iterator[bytes]:
    """Yield the decompressed bytes of `file` in blocks; any other suffix means plain bytes."""
    if suffix not in COMPRESSIONS:
        while block := file.read1(BLOCK_BYTES):
            yield block
        return
    stream = DecompressedFile(file, suffix, ignore_trailing=ignore_trailing)
    while block := stream.read(BLOCK_BYTES):
        yield block


def compression_of(start: bytes) -> str:
    """Name the compression of a file that begins with `start`, "" if it has none."""
    return next((name for name, first in _FIRST_BYTES.items() if start.startswith(first)), "")


def likely_text_bytes(size: int, suffix: str) -> int:
    """Guess how much text a file of `size` bytes holds; the size of a plain file is known."""
    return int(size * _TEXT_PER_BYTE.get(suffix, 1.0))
