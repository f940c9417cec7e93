"""The part of a file that has arrived so far, and whether a file is the expected one."""

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from unisono import atomic
from unisono.datasets.fetch.remote import Fetched, Remote
from unisono.datasets.fetch.retry import MisfitError
from unisono.errors import DataError
from unisono.small_files import PARSER_ERRORS, json_table, read_bytes
from unisono.units import amount_of_bytes

CHUNK = 1 << 18
_WEB_PAGE = (b"<!doctype html", b"<html")


class Digests:
    """The checksums of bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes) -> None:
        self._sha256.update(data)
        self._md5.update(data)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def md5(self) -> str:
        return self._md5.hexdigest()


def verified(remote: Remote, path: Path) -> Fetched:
    """Return the file at `path` if it is the one that `remote` describes."""
    if not path.is_file():
        raise MisfitError("it is not a file")
    size = path.stat().st_size
    if wrong := _wrong_size(remote, size):  # seen without reading gigabytes
        raise MisfitError(wrong)
    digests = _digests_of(path)
    if wrong := mismatch(remote, size, digests):
        raise MisfitError(wrong)
    return Fetched(path, "", size, digests.sha256, digests.md5)


def mismatch(remote: Remote, size: int, digests: Digests) -> str:
    """Describe how a file differs from what `remote` describes, or return ""."""
    if remote.sha256 and digests.sha256 != remote.sha256:
        wrong = f"SHA-256 {digests.sha256} instead of {remote.sha256}"
    elif remote.md5 and digests.md5 != remote.md5:
        wrong = f"MD5 {digests.md5} instead of {remote.md5}"
    else:
        wrong = ""
    return _wrong_size(remote, size) or wrong


def _wrong_size(remote: Remote, size: int) -> str:
    differs = remote.bytes and size != remote.bytes
    return f"{size:,} bytes instead of {remote.bytes:,}" if differs else ""


def _digests_of(path: Path) -> Digests:
    digests = Digests()
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            digests.update(data)
    return digests


def is_web_page(head: bytes) -> bool:
    """Return whether `head` begins an HTML page, which servers send in place of a file."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_WEB_PAGE)


def describe_start(head: bytes) -> str:
    """Describe a file that begins with `head`: a web page or something else."""
    if not head:
        return "nothing arrived"
    kind = "a web page" if is_web_page(head) else "something"
    shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in head[:40])
    return f'the server sent {kind} that begins with "{shown}"'


def check_room(target: Path, needed: int) -> None:
    """Refuse a download whose `needed` bytes do not fit on the disk of `target`."""
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise DataError(
            f"{target.name} needs {amount_of_bytes(needed)} more on the disk,"
            f" and only {amount_of_bytes(free)} are free",
            where=str(target.parent),
            fix="make room, or choose a directory on another disk",
        )


@dataclass(frozen=True)
class Origin:
    """Where a part came from: address, version (ETag or date) and full size, if known."""

    url: str = ""
    version: str = ""
    total: int = 0


class PartialFile:
    """`NAME.part` next to the final file, open for appending.

    Opening it keeps and hashes what is there; `NAME.part.json` has its origin. Both survive
    the process, however it ends.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self._note = target.with_name(f"{target.name}.part.json")
        self.digests, self.size, self.head = Digests(), 0, b""
        self._read()
        self.origin = _read_origin(self._note) if self.size else Origin()
        self.in_one_go = self.size == 0
        self._file = self.path.open("ab", buffering=0)

    def __enter__(self) -> "PartialFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self.size == 0:
            self._remove()

    def append(self, data: bytes) -> None:
        """Add the next bytes; they survive the process from then on."""
        while data:  # a disk that is nearly full takes less than all
            count = self._file.write(data)
            self._count(data[:count])
            data = data[count:]

    def begin(self, origin: Origin) -> None:
        """Drop what there is; `origin` sends the file from its first byte."""
        self.clear()
        self._remember(origin)

    def go_on(self, origin: Origin) -> None:
        """Append to what there is; `origin` sends the rest."""
        self.in_one_go = False
        if origin != self.origin:
            self._remember(origin)

    def clear(self) -> None:
        """Drop everything that has arrived."""
        self._file.truncate(0)
        self._note.unlink(missing_ok=True)
        self.digests, self.size, self.head = Digests(), 0, b""
        self.origin, self.in_one_go = Origin(), True

    def finish(self) -> None:
        """Give the file its final name, durably."""
        atomic.sync(self.path)
        self.path.rename(self.target)
        self._note.unlink(missing_ok=True)
        atomic.sync(self.target.parent)

    def _read(self) -> None:
        if not self.path.exists():
            return
        if self.path.is_symlink() or not self.path.is_file():
            raise DataError(
                f"{self.path.name} is not a plain file",
                where=str(self.path),
                fix="remove it: downloads are written there",
            )
        with self.path.open("rb") as file:
            while data := file.read(CHUNK):
                self._count(data)

    def _remember(self, origin: Origin) -> None:
        self.origin = origin
        atomic.write_text(self._note, json.dumps(asdict(origin), indent=1) + "\n")

    def _count(self, data: bytes) -> None:
        self.digests.update(data)
        self.size += len(data)
        if len(self.head) < 512:
            self.head = (self.head + data)[:512]

    def _remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def _read_origin(path: Path) -> Origin:
    """Read the origin of a part; an unreadable one counts as unknown."""
    try:
        content = json_table(read_bytes(path))
        origin = Origin(**content)
    except (OSError, TypeError, *PARSER_ERRORS):
        return Origin()
    sound = isinstance(origin.url, str) and isinstance(origin.total, int) and origin.total >= 0
    version = origin.version
    plain = isinstance(version, str) and version.isascii() and version.isprintable()
    return origin if sound and plain else Origin()
