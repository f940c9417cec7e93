"""A run directory that takes in records of other directories, each byte once.

`stream/id` names the directory: the records of a source are known by it, also after the
directory was moved or copied. `stream/state.json` says which bytes of a file came from which
source and from where in its file; all other bytes are the directory's own. The state is written
before and after every addition, so that a process killed in between leaves nothing to guess.
"""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from unisono.errors import DataError, RunError
from unisono.launch.stream.record_names import check_name, grows, is_lines, names_in
from unisono.lock import lock
from unisono.records.layout import RunDirectory
from unisono.small_files import PARSER_ERRORS, open_regular, read_bytes, read_line
from unisono.units import amount_of_bytes

_STATE, _IDENTITY, _LOCK = "state.json", "id", "lock"
CHUNK_BYTES = 2**20
# What stays free on the disk here, however much a machine sends.
SPARE_BYTES = 500_000_000
_LOCK_ATTEMPTS = 40


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Bytes `start` to `end` of a file are those of `source` from `source_start` on."""

    source: str
    source_start: int
    start: int
    end: int

    @property
    def source_end(self) -> int:
        """Return where they end in the file of the source."""
        return self.source_start + self.end - self.start


class WholeFile(msgspec.Struct, frozen=True, array_like=True):
    """A whole file of `source`, as it was when it was fetched."""

    source: str
    size: int
    mtime_ns: int


class Addition(msgspec.Struct, frozen=True):
    """Bytes about to be added to the file `name`, which had `size` bytes before."""

    name: str
    source: str
    source_start: int
    length: int
    sha256: str
    size: int


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """What came from where."""

    segments: dict[str, list[Segment]] = {}
    whole: dict[str, WholeFile] = {}
    pending: Addition | None = None
    format: int = 1


class RecordStore:
    """The run directory at `run`, as a source of records and as a place for those of others."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._home = RunDirectory(run).stream
        self._home.mkdir(parents=True, exist_ok=True)
        self._lock = -1
        self._read_at = (0, 0)
        self._state = StoreState()
        self.identity = self._identify()
        self._load()

    def lock(self) -> None:
        """Become the only process that adds records here; mend what a killed one left."""
        if self._lock >= 0:
            return
        handle = os.open(self._home / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock(handle, attempts=_LOCK_ATTEMPTS)
        except OSError as error:
            os.close(handle)
            raise RunError(
                "another launch, attach or pull is already fetching into this directory",
                where=str(self.run),
                fix="stop it first, or give another directory with --records",
            ) from error
        self._lock = handle
        self._load()
        self._mend()

    def close(self) -> None:
        """Release the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def renew(self) -> None:
        """Take a new identity: this directory is a copy, and all that is in it is not new."""
        self.lock()
        for name in [name for name in names_in(self.run) if grows(name)]:
            size = (self.run / name).stat().st_size
            own = [Segment(self.identity, at, at, end) for at, end in self._gaps(name, size)]
            self._segments(name).extend(own)
        self._save()
        (self._home / _IDENTITY).unlink()
        self.identity = self._identify()

    # Reading.

    def entries(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, size and time of change of every file that travels."""
        for name in names_in(self.run):
            with suppress(FileNotFoundError):
                status = (self.run / name).stat()
                yield name, status.st_size, status.st_mtime_ns

    def read_own(self, name: str, offset: int) -> tuple[int, bytes]:
        """Return bytes of this directory's own from `offset` on, and where they begin."""
        check_name(name, growing=True)
        with open_regular(self.run / name) as file:
            # In this order: whoever adds records says so before the file grows.
            size = os.fstat(file.fileno()).st_size
            self._load()
            pending = self._state.pending
            if pending is not None and pending.name == name and self._lock < 0:
                size = min(size, pending.size)
            for start, end in self._gaps(name, size):
                begin = max(start, offset)
                if begin < end:
                    data = os.pread(file.fileno(), min(end - begin, CHUNK_BYTES), begin)
                    return begin, _whole_lines(data) if is_lines(name) else data
        return offset, b""

    def read_from(self, source: str, name: str, offset: int) -> tuple[int, bytes]:
        """Return bytes that came from `source`, from its `offset` on, and where they begin."""
        check_name(name, growing=True)
        theirs = [one for one in self._state.segments.get(name, []) if one.source == source]
        for one in sorted(theirs, key=lambda one: one.source_start):
            if one.source_end > offset:
                begin = max(offset, one.source_start)
                at = one.start + begin - one.source_start
                with open_regular(self.run / name) as file:
                    data = os.pread(file.fileno(), min(one.end - at, CHUNK_BYTES), at)
                return begin, data
        return offset, b""

    def offsets(self, source: str) -> dict[str, int]:
        """Return how far the files of `source` are here, by name."""
        found: dict[str, int] = {}
        for name, segments in self._state.segments.items():
            for one in segments:
                if one.source == source:
                    found[name] = max(found.get(name, 0), one.source_end)
        return found

    def sources(self) -> list[str]:
        """Return the directories whose records are here."""
        found = (one.source for many in self._state.segments.values() for one in many)
        return list(dict.fromkeys(found))

    def wants_whole(self, source: str, name: str, size: int, mtime_ns: int) -> bool:
        """Return whether a whole file of `source` is newer than the one here."""
        here = self._state.whole.get(name)
        if here is None:
            return True
        if here.source != source:
            return mtime_ns > here.mtime_ns
        return (here.size, here.mtime_ns) != (size, mtime_ns) or not (self.run / name).exists()

    @property
    def leader(self) -> str:
        """Return the directory whose `status.json` is here: that of the leading machine."""
        status = self._state.whole.get(RunDirectory(self.run).status.name)
        return status.source if status is not None else ""

    # Adding.

    def append(self, source: str, name: str, start: int, data: bytes) -> None:
        """Add bytes that begin at `start` in the file of `source`; those here are skipped."""
        check_name(name, growing=True)
        skipped = max(0, self.offsets(source).get(name, 0) - start)
        start, data = start + skipped, data[skipped:]
        if not data:
            return
        require_room(self.run, len(data), "for more records")
        path = self.run / name
        path.parent.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path, flags, 0o644)
        try:
            size, digest = os.fstat(handle).st_size, hashlib.sha256(data).hexdigest()
            self._save(Addition(name, source, start, len(data), digest, size))
            written = os.write(handle, data)
            end = os.lseek(handle, 0, os.SEEK_CUR)
        finally:
            os.close(handle)
        self._add(name, Segment(source, start, end - written, end))
        self._save()
        if written < len(data):
            self.append(source, name, start + written, data[written:])

    def replace(self, source: str, name: str, mtime_ns: int, data: bytes) -> None:
        """Write a whole file of `source`; readers see the old one or the new."""
        check_name(name, growing=False)
        require_room(self.run, len(data), "for more records")
        path = self.run / name
        path.parent.mkdir(exist_ok=True)
        _write(path, data)
        self._state.whole[name] = WholeFile(source, len(data), mtime_ns)
        self._save()

    def _add(self, name: str, new: Segment) -> None:
        segments = self._segments(name)
        for index, one in enumerate(segments):
            joins = one.end == new.start and one.source_end == new.source_start
            if one.source == new.source and joins:
                segments[index] = Segment(one.source, one.source_start, one.start, new.end)
                return
        segments.append(new)

    def _segments(self, name: str) -> list[Segment]:
        return self._state.segments.setdefault(name, [])

    def _gaps(self, name: str, size: int) -> Iterator[tuple[int, int]]:
        """Yield where the directory's own bytes of a file begin and end."""
        at = 0
        for one in sorted(self._state.segments.get(name, []), key=lambda one: one.start):
            if at < min(one.start, size):
                yield at, min(one.start, size)
            at = max(at, one.end)
        if at < size:
            yield at, size

    # The state on disk.

    def _identify(self) -> str:
        """Return the identity of this directory, which the first to ask gives it."""
        path = self._home / _IDENTITY
        mine = self._home / f".tmp-{_IDENTITY}-{secrets.token_hex(8)}"
        if not path.exists():
            mine.write_text(f"{secrets.token_hex(16)}\n")
            with suppress(FileExistsError):
                os.link(mine, path)
            mine.unlink()
        identity = read_line(path)
        if len(identity) != 32 or not identity.isalnum():
            raise DataError(
                "the identity of the run directory is damaged",
                where=str(path),
                fix="remove that file",
            )
        return identity

    def _load(self) -> None:
        if self._lock >= 0 and self._read_at != (0, 0):
            return  # nobody else writes
        path = self._home / _STATE
        try:
            status = path.stat()
            if (status.st_mtime_ns, status.st_ino) == self._read_at:
                return
            self._state = msgspec.json.decode(read_bytes(path), type=StoreState)
            self._read_at = status.st_mtime_ns, status.st_ino
        except FileNotFoundError:
            self._state = StoreState()
        except (OSError, *PARSER_ERRORS) as error:
            raise DataError(
                "what was fetched from where is damaged",
                where=str(path),
                fix="move the run directory here away and fetch it anew: unisono pull",
            ) from error

    def _save(self, pending: Addition | None = None) -> None:
        self._state = msgspec.structs.replace(self._state, pending=pending)
        _write(self._home / _STATE, msgspec.json.encode(self._state))
        self._read_at = (1, 1)

    def _mend(self) -> None:
        """Note an addition whose process was killed, and forget bytes that are gone."""
        pending = self._state.pending
        if pending is not None and (self.run / pending.name).is_file():
            at, length = _found(self.run / pending.name, pending)
            if length:
                new = Segment(pending.source, pending.source_start, at, at + length)
                self._add(pending.name, new)
        for name, segments in self._state.segments.items():
            path = self.run / name
            size = path.stat().st_size if path.is_file() else 0
            cut = [_up_to(one, size) for one in segments if one.start < size]
            self._state.segments[name] = cut
        self._save()


def require_room(place: Path, needed: int, what: str) -> None:
    """Raise an OSError if `needed` bytes more would leave too little room on the disk."""
    if shutil.disk_usage(place).free < needed + SPARE_BYTES:
        spare = amount_of_bytes(SPARE_BYTES)
        raise OSError(errno.ENOSPC, f"no room here {what}: {spare} of the disk stay free")


def _found(path: Path, pending: Addition) -> tuple[int, int]:
    """Return where the bytes of an addition are in a file, and how many."""
    with open_regular(path) as file:
        file.seek(pending.size)
        tail = file.read()
    if len(tail) < pending.length:
        return pending.size, len(tail)  # the process was killed while it wrote
    starts = [0, *(at + 1 for at, byte in enumerate(tail) if byte == ord("\n"))]
    for start in starts:
        found = hashlib.sha256(tail[start : start + pending.length]).hexdigest()
        if found == pending.sha256:
            return pending.size + start, pending.length
    return pending.size, 0


def _up_to(segment: Segment, size: int) -> Segment:
    return msgspec.structs.replace(segment, end=min(segment.end, size))


def _whole_lines(data: bytes) -> bytes:
    """Return `data` without a line that has not ended; an endless one is cut."""
    end = data.rfind(b"\n") + 1
    return data[:end] if end or len(data) < CHUNK_BYTES else data


def _write(path: Path, data: bytes) -> None:
    # Not forced to the disk: it changes every second, and can be fetched again.
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    temporary.write_bytes(data)
    temporary.rename(path)
