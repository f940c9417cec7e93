"""A file to download, the progress of its download, and the result."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from unisono.errors import ConfigError
from unisono.units import amount_of_bytes

# Leaves room for `.part.json` in the 255 bytes a file system gives a name.
LONGEST_FILE_NAME = 200
_OUR_ENDINGS = (".part", ".part.json")


@dataclass(frozen=True)
class Remote:
    """One file on the network: the name to save it under, its addresses and checksums.

    `urls` are tried in order. A file without `sha256` and `md5` is only accepted over a
    connection that nobody can tamper with. `aliases` are other names under which a user may
    have saved it.
    """

    name: str
    urls: tuple[str, ...]
    bytes: int = 0
    sha256: str = ""
    md5: str = ""
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        for url in self.urls:
            check_url(url, where=self.name)
        if self.bytes < 0:
            raise ConfigError(
                f"a file of {self.bytes} bytes", where=self.name, fix="0 = unknown"
            )
        _check_digest("sha256", self.sha256, 64, self.name)
        _check_digest("md5", self.md5, 32, self.name)

    @property
    def has_checksum(self) -> bool:
        """Return whether a checksum would reveal wrong bytes."""
        return bool(self.sha256 or self.md5)

    @property
    def described(self) -> str:
        size = f" ({amount_of_bytes(self.bytes)})" if self.bytes else ""
        return f"{self.name}{size}: {self.urls[0] if self.urls else 'no address is known'}"


@dataclass(frozen=True)
class Fetched:
    """A file that is here and verified; `url` is "" if it was not downloaded."""

    path: Path
    url: str
    bytes: int
    sha256: str
    md5: str


@dataclass(frozen=True)
class Received:
    """The progress of a file, in bytes; a `total` of 0 is unknown.

    `note` is "" or says why the download pauses.
    """

    name: str
    done: int
    total: int
    note: str = ""


def is_web_address(url: str) -> bool:
    """Return whether `url` is the address of a file on a web server."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    named = bool(parts.hostname) and parts.username is None and port != 0
    return named and parts.scheme in ("http", "https")


def check_url(url: str, *, where: str) -> None:
    """Refuse an address that is not one of a file on a web server."""
    if not is_web_address(url):
        raise ConfigError(
            f'"{url}" is not an address to download from',
            where=where,
            fix="write https://host/path, without a user name; for files on this machine use"
            " --from DIR",
        )


def _check_name(name: str) -> None:
    bad = re.search(r"[/\\\x00-\x1f\x7f]", name) or name.startswith(".")
    if not name or bad or name.endswith(_OUR_ENDINGS) or len(name.encode()) > LONGEST_FILE_NAME:
        raise ConfigError(
            f"{name!r} cannot be the name of a downloaded file",
            where=name,
            fix="use a plain file name, no directories, no leading dot, not ending in"
            f" {' or '.join(_OUR_ENDINGS)}, at most {LONGEST_FILE_NAME} bytes",
        )


def _check_digest(kind: str, digest: str, length: int, name: str) -> None:
    if digest and not re.fullmatch(rf"[0-9a-f]{{{length}}}", digest):
        raise ConfigError(
            f'"{digest}" is not a {kind}',
            where=name,
            fix=f"write the {length} hexadecimal digits in lower case, or leave it out",
        )
