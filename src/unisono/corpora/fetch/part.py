"""The part of a file that has come so far: its bytes, its checksums, where it is from."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from unisono import atomic
from unisono.corpora.fetch.verify import CHUNK, Digests
from unisono.errors import DataError


@dataclass(frozen=True)
class Origin:
    """Where a part came from: address, version (ETag or date) and full size, if known."""

    url: str = ""
    version: str = ""
    total: int = 0


class Part:
    """`NAME.part` next to the file to be, open for appending.

    What was there before is kept and hashed on opening; the origin lies in
    `NAME.part.json`. Both stay when the process ends, however that happens.
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

    def __enter__(self) -> "Part":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """Drop what there is; what follows comes from `origin`, from its first byte on."""
        self.clear()
        self._remember(origin)

    def go_on(self, origin: Origin) -> None:
        """What follows is appended to what there is, and comes from `origin`."""
        self.in_one_go = False
        if origin != self.origin:
            self._remember(origin)

    def clear(self) -> None:
        """Drop everything that came."""
        self._file.truncate(0)
        self._note.unlink(missing_ok=True)
        self.digests, self.size, self.head = Digests(), 0, b""
        self.origin, self.in_one_go = Origin(), True

    def finish(self) -> None:
        """Give the file its name, on the disk for good."""
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
    """Read the origin of a part; what cannot be read is an unknown origin."""
    try:
        content = json.loads(path.read_text("utf-8"))
        origin = Origin(**content)
    except (OSError, ValueError, TypeError):
        return Origin()
    sound = isinstance(origin.url, str) and isinstance(origin.total, int) and origin.total >= 0
    version = origin.version
    plain = isinstance(version, str) and version.isascii() and version.isprintable()
    return origin if sound and plain else Origin()
