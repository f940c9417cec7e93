"""The files of an export: written with their proof or not at all, and checked when loaded.

`unisono.json` describes the model and holds the proof, and size and SHA-256 of all other files.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from unisono import atomic
from unisono.bundle.format import Description, as_json
from unisono.errors import DataError
from unisono.export.proof import LOWEST_DIFFERENCE, ExportProof
from unisono.small_files import PARSER_ERRORS, read_bytes, reason

DESCRIPTION_FILE = "unisono.json"
EXPORT_FORMAT = 1
FEWEST_POSITIONS = 512

Opened = TypeVar("Opened")


class ExportDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What `unisono.json` says."""

    format: int = EXPORT_FORMAT
    to: str
    quantization: str
    bundle: Description
    proof: ExportProof | None = None
    files: dict[str, atomic.Written] = {}


def write_proven(
    path: Path,
    description: ExportDescription,
    fill: Callable[[Path], None],
    load: Callable[[Path], Opened],
    prove: Callable[[Opened, float], ExportProof],
    *,
    force: bool,
) -> ExportProof:
    """Let `fill` write an export to `path`, which must not exist, and prove what `load` loads.

    `prove` gets the size in megabytes, too. An export that loses too much is not kept unless
    `force`.
    """
    refuse_existing(path)
    _clean(path)
    with atomic.new_directory(path) as directory:
        fill(directory)
        names = sorted(file.name for file in directory.iterdir())
        files = {name: atomic.written(directory / name) for name in names}
        megabytes = sum(file.bytes for file in files.values()) / 1e6
        proof = prove(load(directory), megabytes)
        if proof.is_too_bad and not force:
            raise _refused(proof, path)
        complete = msgspec.structs.replace(description, proof=proof, files=files)
        atomic.write_bytes(directory / DESCRIPTION_FILE, as_json(complete))
    return proof


def refuse_existing(path: Path) -> None:
    """Raise an error if there is anything at `path`."""
    if path.exists():
        raise DataError(
            "something is in the way",
            where=str(path),
            fix="name another --output, or remove it",
        )


def _clean(path: Path) -> None:
    """Remove what killed exports to the same `path` have left."""
    for left in path.parent.glob(f"{atomic.TEMPORARY}{path.name}-*"):
        pid = left.name.rpartition("-")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def _refused(proof: ExportProof, path: Path) -> DataError:
    lost = proof.bleu.difference if proof.bleu else 0.0
    return DataError(
        f"the export loses {-lost:.2f} BLEU, more than {-LOWEST_DIFFERENCE}; it was not kept",
        where=str(path),
        fix="choose another --quantize, or none; --force keeps it all the same",
    )


def read_export(path: Path, to: str) -> ExportDescription:
    """Check every file of the export at `path`, which has to be for `to`."""
    if not (path / DESCRIPTION_FILE).is_file():
        raise DataError(
            f"this is no export of Unisono: it has no {DESCRIPTION_FILE}",
            where=str(path),
            fix=f"unisono export BUNDLE --to {to}",
        )
    description = _read(path / DESCRIPTION_FILE)
    if description.to != to:
        raise DataError(
            f"this export is for {description.to}, not for {to}",
            where=str(path),
            fix=f"unisono export BUNDLE --to {to}",
        )
    for name, expected in description.files.items():
        if Path(name).name != name:
            raise _damaged(path / DESCRIPTION_FILE, f"it lists {name!r}")
        if how := atomic.difference(path / name, expected):
            raise _damaged(path / name, how)
    return description


def _read(path: Path) -> ExportDescription:
    try:
        found = msgspec.json.decode(read_bytes(path), type=ExportDescription)
    except (OSError, *PARSER_ERRORS) as error:
        raise _damaged(path, reason(error)) from error
    if found.format != EXPORT_FORMAT or not found.files:
        raise _damaged(path, f"it describes format {found.format} of {found.to}")
    return found


def _damaged(path: Path, how: str) -> DataError:
    return DataError(
        f"{path.name} is damaged: {how}", where=str(path), fix="copy the export again"
    )


def position_rows_of(about: Description) -> int:
    """Return how many positions the longest translation takes, with room for a prefix."""
    decoding = about.decoding
    longest = int(decoding.max_ratio * about.max_pieces) + decoding.max_extra
    return max(FEWEST_POSITIONS, 2 * longest + 2)
