"""Packed text files, told by the ending of their names: .gz, .bz2, .xz, .zst."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import zstandard

DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
PACKED = (".gz", ".bz2", ".xz", ".zst")

_READ_BYTES = 1 << 20
# The most that a few bytes of Zstandard can become is 32,768 times as many.
_ZSTANDARD_BYTES = 1 << 12

# How much text a packed byte is likely to hold, at least.
_TEXT_PER_BYTE = {".gz": 2.5, ".bz2": 3.0, ".xz": 3.0, ".zst": 2.5}


def unpacked(file: io.BufferedIOBase, suffix: str) -> Iterator[bytes]:
    """Yield the text of `file` in blocks; one cut off raises an OSError or one of `DAMAGED`."""
    if suffix == ".zst":
        return _zstandard(file)
    if suffix in _OPEN:
        return _blocks(_OPEN[suffix](file))
    return _blocks(file)


def likely_text_bytes(size: int, suffix: str) -> int:
    """Guess how much text a file of `size` bytes holds; if it is not packed, that is known."""
    return int(size * _TEXT_PER_BYTE.get(suffix, 1.0))


def _gzip(file: io.BufferedIOBase) -> io.BufferedIOBase:
    return gzip.GzipFile(fileobj=file)


def _xz(file: io.BufferedIOBase) -> io.BufferedIOBase:
    return lzma.LZMAFile(cast("BinaryIO", file))


_OPEN: dict[str, Callable[[io.BufferedIOBase], io.BufferedIOBase]] = {
    ".gz": _gzip,
    ".bz2": bz2.BZ2File,
    ".xz": _xz,
}


def _blocks(file: io.BufferedIOBase) -> Iterator[bytes]:
    # Not `read`, which keeps what it has when the rest of a packed file is damaged.
    while block := file.read1(_READ_BYTES):
        yield block


def _zstandard(file: io.BufferedIOBase) -> Iterator[bytes]:
    """Unpack frame after frame; its own reader takes a frame that is cut off for whole."""
    packed = file.read(_ZSTANDARD_BYTES)
    if not packed:
        raise EOFError("the file is empty")
    while packed:
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if not packed:
                raise EOFError("the last frame is cut off")
            yield frame.decompress(packed)
            packed = b"" if frame.eof else file.read(_ZSTANDARD_BYTES)
        packed = frame.unused_data or file.read(_ZSTANDARD_BYTES)
