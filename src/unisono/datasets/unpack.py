"""Read wanted members of an archive as streams, in bounded memory and bounded amounts.

Nothing is written here, so no path from an archive is ever used: the caller asks for members
by name and gets their bytes. A wanted member that is not a regular file, or that occurs twice,
is refused; all others are skipped. The total that comes out of an archive is bounded, too.
"""

import errno
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from unisono.decompress import BLOCK_BYTES, COMPRESSIONS, DecompressedFile, DecompressionError
from unisono.errors import DataError

Read = Callable[[int], bytes]
_MOST_EXPANSION = 50
_ALLOWANCE = 16 << 20
_MOST_BYTES = 200 << 30
_LONGEST_RECORD = 1 << 16
_SHORT = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_DAMAGED = (
    *(DecompressionError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError),
    *(EOFError, RuntimeError, ValueError, OverflowError, struct.error, zlib.error),
)
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
_TAR_RECORDS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
_TAR_KINDS = {
    **dict.fromkeys((tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE), "file"),
    tarfile.LNKTYPE: "hard link",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.DIRTYPE: "directory",
    tarfile.FIFOTYPE: "pipe",
    tarfile.GNUTYPE_SPARSE: "sparse file",
}


class ArchiveMember:
    """One wanted member: which wish it answers, and its size, or 0 if that is not known."""

    def __init__(self, archive: Path, wish: str, size: int, read: Read) -> None:
        self.wish, self.size = wish, size
        self._archive, self._read = archive, read

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, b"" at the end."""
        with _damage_explained(self._archive):
            return self._read(size)


def wanted_members(
    archive: Path, wishes: tuple[str, ...]
) -> Iterator[tuple[ArchiveMember, BinaryIO]]:
    """Yield each wanted member with the packed file, whose position shows the progress.

    For a single packed file the only wish is "". A member must be read before the next.
    """
    with _damage_explained(archive), archive.open("rb") as packed:
        if wishes == ("",):
            members = _alone(archive, packed)
        elif archive.suffix == ".zip":
            members = _zip_members(archive, packed, wishes)
        else:
            members = _tar_members(archive, packed, wishes)
        for member in members:
            yield member, packed


def unpacked_limit(packed_bytes: int) -> int:
    """Return how many bytes an archive of this size may unpack to.

    Text shrinks to a third or a tenth; what shrinks to a fiftieth is a decompression bomb.
    """
    return min(_MOST_EXPANSION * packed_bytes + _ALLOWANCE, _MOST_BYTES)


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than its archive may unpack to."""

    def __init__(self, stream: BinaryIO | io.RawIOBase, archive: Path) -> None:
        self._stream, self._archive = stream, archive
        self._left = self._limit = unpacked_limit(archive.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), BLOCK_BYTES)) or b""
        self._left -= len(data)
        if self._left < 0:
            raise _too_much(self._archive, self._limit)
        buffer[: len(data)] = data
        return len(data)


def _too_much(archive: Path, limit: int) -> DataError:
    return DataError(
        f"{archive.name} unpacks to more than {limit:,} bytes, far more than text does",
        where=str(archive),
        fix="do not use this file: it looks like a decompression bomb; get it elsewhere",
    )


def _decompressed(archive: Path, packed: BinaryIO, suffix: str) -> BinaryIO:
    plain = DecompressedFile(packed, suffix) if suffix in COMPRESSIONS else packed
    return io.BufferedReader(_Bounded(plain, archive), BLOCK_BYTES)


def _alone(archive: Path, packed: BinaryIO) -> Iterator[ArchiveMember]:
    stream = _decompressed(archive, packed, archive.suffix)
    yield ArchiveMember(archive, "", 0, stream.read)


class _TarHeader(tarfile.TarInfo):
    """A header that the library reads, with stricter checks.

    The library takes a damaged header for the end of the archive, and reads long names and
    pax records into memory whatever length they claim.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_TarHeader":
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not buf.strip(b"\0"):
                raise  # the mark at the end of an archive
            raise tarfile.ReadError(f"{error}: the archive is cut off or damaged") from error
        if header.type in _TAR_RECORDS and header.size > _LONGEST_RECORD:
            raise tarfile.ReadError(f"a name or record of {header.size:,} bytes")
        if header.type == tarfile.GNUTYPE_SPARSE and buf[482]:
            raise tarfile.ReadError("a sparse file with a long map")
        return header

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Leave the map of a sparse file alone: its length has no bound."""


def _tar_members(
    archive: Path, packed: BinaryIO, wishes: tuple[str, ...]
) -> Iterator[ArchiveMember]:
    suffix = _SHORT.get(archive.suffix, archive.suffix)
    stream = _decompressed(archive, packed, suffix)
    granted = _Granted(archive, wishes)
    with tarfile.open(
        fileobj=stream, mode="r|", bufsize=BLOCK_BYTES, tarinfo=_TarHeader, encoding="utf-8"
    ) as opened:
        while header := opened.next():
            opened.members.clear()  # type: ignore[attr-defined]  # it would keep every header
            if header.size < 0:
                raise tarfile.ReadError(f"a member of {header.size} bytes")
            wish = granted.wish_for(header.name, _tar_kind(header))
            if wish and (data := opened.extractfile(header)):
                yield ArchiveMember(archive, wish, header.size, data.read)
    while stream.read(BLOCK_BYTES):
        pass  # to the end: the checksum of the compression stands behind the last byte
    granted.refuse_missing()


def _tar_kind(header: tarfile.TarInfo) -> str:
    if any(key.startswith("GNU.sparse") for key in header.pax_headers):
        return "sparse file"
    if header.name.endswith("/"):
        return "directory"
    return _TAR_KINDS.get(header.type, f"member of kind {header.type!r}")


def _zip_members(
    archive: Path, packed: BinaryIO, wishes: tuple[str, ...]
) -> Iterator[ArchiveMember]:
    granted = _Granted(archive, wishes)
    left = limit = unpacked_limit(archive.stat().st_size)
    with zipfile.ZipFile(packed) as opened:
        chosen = []
        for info in opened.infolist():
            if wish := granted.wish_for(info.filename, _zip_kind(info)):
                chosen.append((wish, info))
        granted.refuse_missing()
        for wish, info in chosen:
            left -= info.file_size
            if left < 0:
                raise _too_much(archive, limit)
            _refuse_strange(archive, info)
            with opened.open(info) as stream:
                yield ArchiveMember(archive, wish, info.file_size, stream.read)


def _zip_kind(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16
    if info.is_dir():
        return "directory"
    if stat.S_ISLNK(mode):
        return "symbolic link"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "device"


def _refuse_strange(archive: Path, info: zipfile.ZipInfo) -> None:
    if info.flag_bits & 0x1:
        raise DataError(
            f"{info.filename} in {archive.name} is encrypted",
            where=str(archive),
            fix="unpack it yourself and name the plain files in an entry of your own",
        )
    if info.compress_type not in _ZIP_METHODS:
        raise DataError(
            f"{info.filename} in {archive.name} is compressed in a way Unisono does not read "
            f"(method {info.compress_type})",
            where=str(archive),
            fix="unpack it yourself and pack it again, for example with `zip`",
        )


class _Granted:
    """Which wishes have been met by which member."""

    def __init__(self, archive: Path, wishes: tuple[str, ...]) -> None:
        self._archive = archive
        self._members: dict[str, str] = dict.fromkeys(wishes, "")
        self._seen: list[str] = []

    def wish_for(self, member: str, kind: str) -> str:
        """Return the wish that `member` answers, or ""; refuse a second one and a non-file."""
        name = str(PurePosixPath(member))
        if len(self._seen) < 20 and kind == "file":
            self._seen.append(member)
        for wish, before in self._members.items():
            if not _matches(name, wish):
                continue
            if kind != "file":
                raise self._error(f"{member} is not a file but a {kind}")
            if before:
                twice = f"there are two members for {wish}: {before} and {member}"
                raise self._error(twice)
            self._members[wish] = member
            return wish
        return ""

    def refuse_missing(self) -> None:
        """Refuse an archive that does not hold every wanted member."""
        for wish, member in self._members.items():
            if not member:
                seen = ", ".join(self._seen) or "nothing"
                raise self._error(f"there is no member {wish}; it holds {seen}")

    def _error(self, what: str) -> DataError:
        return DataError(
            f"{self._archive.name}: {what}",
            where=str(self._archive),
            fix="it is not what the entry describes: check the urls and members in the entry",
        )


def _matches(name: str, wish: str) -> bool:
    """Compare whole names; a wish with * or ? and without / looks at the last part only."""
    if name.startswith("/") or ".." in name.split("/"):
        return False
    if not set("*?") & set(wish):
        return name == wish
    return fnmatchcase(name if "/" in wish else name.rpartition("/")[2], wish)


@contextmanager
def _damage_explained(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        # bz2 in a zip has no error of its own, and a zip may point to before its beginning.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> DataError:
    return DataError(
        f"{archive.name} cannot be unpacked: {error}",
        where=str(archive),
        fix="it is cut off, damaged or not an archive: delete it and get the corpus again",
    )
