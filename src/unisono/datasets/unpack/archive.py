"""The wanted members of an archive, one after another, as streams.

Nothing is written here, so no path from an archive is ever used: the caller asks for members
by name and gets their bytes. A wanted member that is no plain file, or that is there twice, is
refused; all others are passed over.
"""

import errno
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from unisono.datasets.unpack.streams import (
    DAMAGED,
    PACKINGS,
    open_unpacked,
    too_much,
    unpacked_limit,
)
from unisono.datasets.unpack.tar import BadTarError, TarReader
from unisono.errors import DataError

Read = Callable[[int], bytes]
_SHORT = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_ZIP_DAMAGED = (
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OverflowError),
    struct.error,
)
_ZIP_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)


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


def _alone(archive: Path, packed: BinaryIO) -> Iterator[ArchiveMember]:
    suffix = archive.suffix if archive.suffix in PACKINGS else ""
    stream = open_unpacked(packed, suffix, archive)
    yield ArchiveMember(archive, "", 0, stream.read)


def _tar_members(
    archive: Path, packed: BinaryIO, wishes: tuple[str, ...]
) -> Iterator[ArchiveMember]:
    suffix = _SHORT.get(archive.suffix, archive.suffix)
    stream = open_unpacked(packed, suffix if suffix in PACKINGS else "", archive)
    reader = TarReader(stream)
    granted = _Granted(archive, wishes)
    for entry in reader:
        if wish := granted.wish_for(entry.name, entry.kind):
            yield ArchiveMember(archive, wish, entry.size, reader.read)
    granted.refuse_missing()


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
                raise too_much(archive, limit)
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
    if info.compress_type not in _ZIP_PACKINGS:
        raise DataError(
            f"{info.filename} in {archive.name} is packed in a way we do not read "
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
        """Return the wish that `member` answers, or ""; refuse no file, or a second one."""
        name = str(PurePosixPath(member))
        if len(self._seen) < 20 and kind == "file":
            self._seen.append(member)
        for wish, before in self._members.items():
            if not _matches(name, wish):
                continue
            if kind != "file":
                raise self._error(f"{member} is no file but a {kind}")
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
            fix="it is not what the entry describes: check its urls and members",
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
    except (*DAMAGED, *_ZIP_DAMAGED, BadTarError) as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        # bz2 has no error of its own, and a zip may point to before its beginning.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> DataError:
    return DataError(
        f"{archive.name} cannot be unpacked: {error}",
        where=str(archive),
        fix="it is cut off, damaged or something else: delete it and get the corpus again",
    )
