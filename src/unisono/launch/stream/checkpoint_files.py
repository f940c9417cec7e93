"""The files of a checkpoint, as one machine gives them away and another takes them."""

import os
import re
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.errors import DataError
from unisono.launch.stream.record_store import CHUNK_BYTES
from unisono.records.layout import RunDirectory
from unisono.small_files import open_regular, read_line

_CHECKPOINT = re.compile(r"step-\d{7,12}", re.ASCII)
_FILE = re.compile(r"(?:model|optimizer|exchange)\.safetensors|(?:progress|manifest)\.json")
CHECKPOINT_MANIFEST = "manifest.json"
POINTERS = ("latest", "best")


class FileHashes(msgspec.Struct, frozen=True):
    """What is read of the manifest of a checkpoint: size and hash of its files."""

    files: dict[str, atomic.Written]


def check_checkpoint(checkpoint: str, file: str = CHECKPOINT_MANIFEST) -> None:
    """Raise a DataError unless these are names of a checkpoint and of a file in it."""
    if _CHECKPOINT.fullmatch(checkpoint) is None or _FILE.fullmatch(file) is None:
        raise DataError(
            f"a machine named a file of no checkpoint: {checkpoint[:100]!r}, {file[:100]!r}",
            fix="use the same version of Unisono on all machines",
        )


def complete_checkpoints(run: Path) -> list[str]:
    """Return the names of the checkpoints at `run`, then `latest=NAME` and `best=NAME`."""
    place = RunDirectory(run).checkpoints
    found = [
        path.name
        for path in sorted(place.glob("step-*"))
        if _CHECKPOINT.fullmatch(path.name) and (path / CHECKPOINT_MANIFEST).is_file()
    ]
    pointers = [f"{name}={at}" for name in POINTERS if (at := read_line(place / name)) in found]
    return [*found, *pointers]


def read_checkpoint(run: Path, checkpoint: str, file: str, offset: int) -> bytes:
    """Return bytes of a file of a checkpoint from `offset` on."""
    check_checkpoint(checkpoint, file)
    path = RunDirectory(run).checkpoints / checkpoint / file
    with open_regular(path) as opened:
        return os.pread(opened.fileno(), CHUNK_BYTES, offset)
