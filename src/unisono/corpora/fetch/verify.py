"""Is this the file it should be?"""

import hashlib
from pathlib import Path

from unisono.corpora.fetch.failures import MisfitError
from unisono.corpora.fetch.remote import Fetched, Remote

CHUNK = 1 << 18
_WEB_PAGE = (b"<!doctype html", b"<html")


class Digests:
    """The checksums of bytes that come one piece after the other."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes) -> None:
        """Take the next bytes in."""
        self._sha256.update(data)
        self._md5.update(data)

    @property
    def sha256(self) -> str:
        """The SHA-256 of all bytes so far, in hexadecimal."""
        return self._sha256.hexdigest()

    @property
    def md5(self) -> str:
        """The MD5 of all bytes so far, in hexadecimal."""
        return self._md5.hexdigest()


def verified(remote: Remote, path: Path) -> Fetched:
    """Return what the file at `path` is, if it is what `remote` promises."""
    if not path.is_file():
        raise MisfitError("it is not a file")
    size = path.stat().st_size
    if wrong := _wrong_size(remote, size):  # seen without reading gigabytes
        raise MisfitError(wrong)
    digests = _digests_of(path)
    if wrong := difference(remote, size, digests):
        raise MisfitError(wrong)
    return Fetched(path, "", size, digests.sha256, digests.md5)


def difference(remote: Remote, size: int, digests: Digests) -> str:
    """Return in words how a file differs from what `remote` promises, or ""."""
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
    """Whether a file that begins with `head` is HTML: what servers send in place of a file."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_WEB_PAGE)


def glimpse(head: bytes) -> str:
    """Say what a file that begins with `head` looks like: a web page, text, or binary."""
    if not head:
        return "nothing came"
    kind = "a web page" if is_web_page(head) else "something"
    shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in head[:40])
    return f'what came is {kind} that begins with "{shown}"'
