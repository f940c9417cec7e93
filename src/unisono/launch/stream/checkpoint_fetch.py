"""Checkpoints of the leading machine, fetched whole, verified, and as many as it keeps."""

import shutil
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.errors import DataError
from unisono.launch.stream.checkpoint_files import (
    CHECKPOINT_MANIFEST,
    POINTERS,
    FileHashes,
    check_checkpoint,
)
from unisono.launch.stream.client import StreamClient
from unisono.launch.stream.messages import ReadCheckpoint, RecordBytes
from unisono.launch.stream.record_store import require_room
from unisono.records.layout import RunDirectory
from unisono.small_files import PARSER_ERRORS, read_bytes, read_line
from unisono.units import amount_of_bytes

MOST_CHECKPOINTS = 10_000
MANIFEST_BYTES = 1_000_000


class CheckpointFetch:
    """Keeps the checkpoints in the run directory `run` as they are on the leading machine.

    A checkpoint appears here when all its files match its manifest. What was fetched of one
    before a connection broke is kept, and is continued.
    """

    def __init__(self, run: Path) -> None:
        self._place = RunDirectory(run).checkpoints

    def fetch(self, client: StreamClient, listed: list[str]) -> int:
        """Fetch what is missing, newest first; return how many came."""
        pointers = dict(one.split("=", 1) for one in listed if "=" in one)
        names = [one for one in listed if "=" not in one]
        if len(names) > MOST_CHECKPOINTS:
            raise DataError(f"a machine listed {len(names):,} checkpoints")
        for name in names:
            check_checkpoint(name)
        missing = [one for one in reversed(names) if not (self._place / one).is_dir()]
        fetched = sum(self._fetch_one(client, name) for name in missing)
        self._point(pointers, names)
        self._prune(names)
        return fetched

    def _fetch_one(self, client: StreamClient, name: str) -> int:
        unfinished = self._place / f"{atomic.TEMPORARY}{name}-fetched"
        unfinished.mkdir(parents=True, exist_ok=True)
        try:
            self._fetch_file(client, name, CHECKPOINT_MANIFEST, unfinished, MANIFEST_BYTES)
            data = read_bytes(unfinished / CHECKPOINT_MANIFEST, MANIFEST_BYTES)
            manifest = msgspec.json.decode(data, type=FileHashes)
            needed = sum(max(0, entry.bytes) for entry in manifest.files.values())
            size = amount_of_bytes(needed)
            require_room(self._place, needed, f"for a checkpoint of {size}")
            for file, entry in manifest.files.items():
                self._fetch_file(client, name, file, unfinished, entry.bytes)
            _verify(unfinished, manifest)
        except (DataError, *PARSER_ERRORS):
            # Removed there meanwhile, or not what its manifest says: begin again.
            shutil.rmtree(unfinished, ignore_errors=True)
            return 0
        unfinished.rename(self._place / name)
        return 1

    def _fetch_file(
        self, client: StreamClient, name: str, file: str, into: Path, most: int
    ) -> None:
        check_checkpoint(name, file)
        with (into / file).open("ab") as written:
            while True:
                asked = ReadCheckpoint(name, file, written.tell())
                _, data = client.fetch(asked, RecordBytes)
                if not data:
                    return
                if written.tell() + len(data) > most:
                    raise DataError(f"{file} of {name} does not end where it should")
                written.write(data)

    def _point(self, pointers: dict[str, str], names: list[str]) -> None:
        for pointer in POINTERS:
            name = pointers.get(pointer, "")
            new = name in names and read_line(self._place / pointer) != name
            if new and (self._place / name).is_dir():
                atomic.write_text(self._place / pointer, f"{name}\n")

    def _prune(self, names: list[str]) -> None:
        """Remove what the leading machine no longer keeps, unless a pointer still names it."""
        if not all((self._place / name).is_dir() for name in names) or not names:
            return
        kept = {*names, *(read_line(self._place / pointer) for pointer in POINTERS)}
        for path in self._place.glob("step-*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
        for path in self._place.glob(f"{atomic.TEMPORARY}step-*-fetched"):
            shutil.rmtree(path, ignore_errors=True)


def _verify(checkpoint: Path, manifest: FileHashes) -> None:
    for file, expected in manifest.files.items():
        if how := atomic.difference(checkpoint / file, expected):
            raise DataError(f"{file}: {how}", where=str(checkpoint))
