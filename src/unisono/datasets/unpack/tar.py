"""Tar archives, read forwards, header by header.

No member becomes a file here. The standard library's reader takes long names and pax records
into memory at any length an archive claims; this one has bounds, and knows no other member
than a plain file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from unisono.datasets.unpack.streams import READ_BYTES

BLOCK = 512
_LONGEST_RECORD = 1 << 20
_KINDS = {
    **dict.fromkeys((b"0", b"\0", b"7"), "file"),
    b"1": "hard link",
    b"2": "symbolic link",
    b"3": "device",
    b"4": "device",
    b"5": "directory",
    b"6": "pipe",
    b"S": "sparse file",
}


class BadTarError(Exception):
    """The bytes are not those of a sound tar archive."""


@dataclass(frozen=True)
class TarMember:
    """What a header says: `kind` is "file", or what it is instead."""

    name: str
    size: int
    kind: str


class TarReader:
    """The members of a tar archive in their order; `read` gives the data of the last one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[TarMember]:
        """Yield every member; what was not read of the one before is passed over."""
        name, size, sparse = "", -1, False
        while header := self._header():
            kind, length = header[156:157], _number(header[124:136])
            if kind in (b"L", b"K", b"x", b"g"):
                record = self._record(length)
                if kind == b"L":
                    name = _text(record)
                elif kind == b"x":
                    name, size, sparse = _pax(record, name, size)
                continue
            size = length if size < 0 else size
            what = "sparse file" if sparse else _KINDS.get(kind, f"member of kind {kind!r}")
            self._left = 0 if kind in b"123456" else size
            self._padding = -self._left % BLOCK
            self._pass_map(header)
            name = name or _ustar_name(header)
            yield TarMember(name, size, "directory" if name.endswith("/") else what)
            self._skip()
            name, size, sparse = "", -1, False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of the member last yielded, b"" at its end."""
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        if not data and self._left:
            raise EOFError("the archive ends in the middle of a member")
        return data

    def _skip(self) -> None:
        while self.read(READ_BYTES):
            pass
        self._exactly(self._padding)
        self._padding = 0

    def _pass_map(self, header: bytes) -> None:
        """Pass over the rest of the map of a sparse file, as old GNU tar wrote it."""
        more = header[156:157] == b"S" and header[482] > 0
        while more:
            more = self._exactly(BLOCK)[504] > 0

    def _header(self) -> bytes:
        """Return the next header, or b"" at the end of the archive."""
        block = self._stream.read(BLOCK)
        if not block:
            raise EOFError("the archive ends without its end mark")
        if not block.strip(b"\0"):
            while self._stream.read(READ_BYTES):
                pass  # to the end: the checksum of the packing is behind the last byte
            return b""
        if len(block) < BLOCK:
            raise EOFError("the archive ends in the middle of a header")
        spaces = block[:148] + b" " * 8 + block[156:]
        if sum(spaces) != _number(block[148:156]):
            raise BadTarError("a header with a wrong checksum")
        return block

    def _record(self, length: int) -> bytes:
        if length > _LONGEST_RECORD:
            raise BadTarError(f"a name or record of {length:,} bytes")
        data = self._exactly(length)
        self._exactly(-length % BLOCK)
        return data

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size) if size else b""
        if len(data) < size:
            raise EOFError("the archive ends in the middle of a member")
        return data


def _number(field: bytes) -> int:
    """Read a number: octal digits, or, for great ones, the bytes themselves."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0").split(b"\0")[0]
    try:
        value = int(digits or b"0", 8)
    except ValueError as error:
        raise BadTarError(f"{field!r} is not a number") from error
    if value < 0:
        raise BadTarError(f"a negative number: {field!r}")
    return value


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _ustar_name(header: bytes) -> str:
    name, prefix = _text(header[:100]), _text(header[345:500])
    is_posix = header[257:263] == b"ustar\0"
    return f"{prefix}/{name}" if is_posix and prefix else name


def _pax(record: bytes, name: str, size: int) -> tuple[str, int, bool]:
    """Return name, size and whether the file is sparse, as a pax record has them."""
    sparse, position = False, 0
    while position < len(record):
        space = record.find(b" ", position)
        digits = record[position:space] if space > 0 else b""
        if not digits.isdigit() or not position < position + int(digits) <= len(record):
            raise BadTarError("a damaged pax record")
        entry = record[space + 1 : position + int(digits) - 1]
        position += int(digits)
        key, _, value = entry.partition(b"=")
        if key == b"path":
            name = _text(value)
        elif key == b"size" and value.isdigit():
            size = int(value)
        sparse = sparse or key.startswith(b"GNU.sparse")
    return name, size, sparse
