"""Checkpoints: directories that are complete and verified, or do not exist.

`step-0012000/` holds model.safetensors, optimizer.safetensors, progress.json and
manifest.json with the size and SHA-256 of each; and exchange.safetensors, if the exchange
keeps anything between updates, which makes it a checkpoint of format 2. `latest` and `best`
are files of one line, a name; they are written after what they point to. Only the leading
process writes.
"""

import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unisono import atomic
from unisono.errors import DataError, RunError
from unisono.small_files import PARSER_ERRORS, read_bytes, read_line, read_parsed, reason
from unisono.train.progress import Progress
from unisono.units import amount_of_bytes

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
PROGRESS, MANIFEST = "progress.json", "manifest.json"
EXCHANGE = "exchange.safetensors"
CHECKPOINT_FILES = {1: (MODEL, OPTIMIZER, PROGRESS), 2: (MODEL, OPTIMIZER, EXCHANGE, PROGRESS)}
EMPTY: Mapping[str, Tensor] = MappingProxyType({})
_NAME = re.compile(r"step-(\d{7,})")


class CheckpointManifest(msgspec.Struct, frozen=True):
    """The files of a checkpoint."""

    format: int
    step: int
    files: dict[str, atomic.Written]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A verified checkpoint, read."""

    name: str
    progress: Progress
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    exchange: dict[str, Tensor]


def name_of(step: int) -> str:
    """Return the name of the checkpoint at `step`."""
    return f"step-{step:07d}"


def save(
    directory: Path,
    progress: Progress,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    exchange: Mapping[str, Tensor] = EMPTY,
) -> CheckpointManifest:
    """Write and verify the checkpoint of this step; `exchange` is what the exchange keeps."""
    # Not its parents: a run directory that somebody moved away must not reappear half empty.
    directory.mkdir(exist_ok=True)
    _check_space(directory, [*model.values(), *optimizer.values(), *exchange.values()])
    name, kind = name_of(progress.step), 2 if exchange else 1
    with atomic.new_directory(directory / name) as temporary:
        save_file(dict(model), temporary / MODEL)
        save_file(dict(optimizer), temporary / OPTIMIZER)
        if exchange:
            save_file(dict(exchange), temporary / EXCHANGE)
        atomic.write_bytes(temporary / PROGRESS, msgspec.json.encode(progress))
        files = {file: atomic.written(temporary / file) for file in CHECKPOINT_FILES[kind]}
        manifest = msgspec.json.encode(CheckpointManifest(kind, progress.step, files))
        atomic.write_bytes(temporary / MANIFEST, manifest)
        if (directory / name).exists():
            _remove(directory / name)
    return verify(directory / name)


def names(directory: Path) -> list[str]:
    """Return the names of all checkpoints in `directory`, the newest first."""
    found = [path.name for path in directory.glob("step-*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=_step, reverse=True)


def point(directory: Path, pointer: str, name: str) -> None:
    """Make `latest` or `best` point to the checkpoint `name`."""
    atomic.write_text(directory / pointer, name + "\n")


def pointed(directory: Path, pointer: str) -> str:
    """Return the name that `latest` or `best` holds, or "" if there is none."""
    return read_line(directory / pointer)


def prune(directory: Path, keep: int, needed: Collection[str]) -> None:
    """Remove all but the newest `keep` checkpoints and those `needed`, such as the best."""
    for name in names(directory)[keep:]:
        if name not in needed:
            _remove(directory / name)


def discard(directory: Path, newer_than: str = "") -> None:
    """Remove the checkpoints newer than `newer_than`, or all: the run went back before them."""
    there = names(directory)
    for name in there[: there.index(newer_than)] if newer_than else there:
        _remove(directory / name)
    for pointer in ("latest", "best"):
        if not (directory / pointed(directory, pointer)).is_dir():
            (directory / pointer).unlink(missing_ok=True)


def verify(path: Path) -> CheckpointManifest:
    """Return the manifest of the checkpoint at `path` if every file matches it."""
    try:
        data = read_bytes(path / MANIFEST)
        manifest = msgspec.json.decode(data, type=CheckpointManifest)
    except (OSError, *PARSER_ERRORS) as error:
        raise DataError(f"no readable manifest: {reason(error)}", where=str(path)) from error
    if manifest.format not in CHECKPOINT_FILES:
        raise DataError(
            f"format {manifest.format} is not known to this version",
            where=str(path),
            fix="use the version of Unisono that wrote it, or a newer one",
        )
    if name_of(manifest.step) != path.name or set(manifest.files) != set(
        CHECKPOINT_FILES[manifest.format]
    ):
        raise DataError("the manifest is not that of this checkpoint", where=str(path))
    for name, entry in manifest.files.items():
        if how := atomic.difference(path / name, entry):
            raise DataError(f"{name}: {how}", where=str(path))
    return manifest


def load(path: Path) -> Checkpoint:
    """Read the checkpoint at `path`, which is verified first."""
    manifest = verify(path)
    return Checkpoint(
        name=path.name,
        progress=read_parsed(path / PROGRESS, msgspec.json.Decoder(Progress).decode),
        model=load_tensors(path / MODEL),
        optimizer=load_tensors(path / OPTIMIZER),
        exchange=load_tensors(path / EXCHANGE) if EXCHANGE in manifest.files else {},
    )


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors; a damaged one is a `DataError`, whatever its hash says."""
    try:
        return load_file(path)
    except (OSError, SafetensorError, *PARSER_ERRORS) as error:
        raise DataError(f"{path.name} is damaged: {reason(error)}", where=str(path)) from error


def newest(directory: Path, up_to: int | None = None) -> tuple[str, list[str]]:
    """Return the name of the newest sound checkpoint, and why newer ones were passed over.

    Those after step `up_to` do not count.

    Without any checkpoint the name is "". If all checkpoints are damaged, that is an error: a
    run that starts again from nothing would overwrite what somebody could still rescue.
    """
    troubles = []
    for name in names(directory):
        if up_to is not None and _step(name) > up_to:
            continue
        try:
            verify(directory / name)
        except DataError as error:
            troubles.append(f"checkpoint {name} is damaged and was passed over: {error.what}")
        else:
            return name, troubles
    if troubles:
        raise RunError(
            f"none of the {len(troubles)} checkpoints can be read: {troubles[0]}",
            where=str(directory),
            fix="restore one from a copy, or move the directory away to start anew",
        )
    return "", troubles


def set_aside(directory: Path, newer_than: str) -> None:
    """Rename the checkpoints newer than a sound one, because they are damaged.

    If they counted among the newest, pruning would remove the sound ones.
    """
    there = names(directory)
    for name in there[: there.index(newer_than)]:
        aside = directory / f"damaged-{name}"
        shutil.rmtree(aside, ignore_errors=True)
        (directory / name).rename(aside)


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))


def _remove(path: Path) -> None:
    # Renamed first, so that nobody takes a half-removed checkpoint for a damaged one.
    doomed = path.with_name(f"{atomic.TEMPORARY}old-{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed)


def _check_space(directory: Path, tensors: list[Tensor]) -> None:
    needed = int(1.05 * sum(t.numel() * t.element_size() for t in tensors)) + 1_000_000
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise RunError(
            f"a checkpoint needs {amount_of_bytes(needed)}, but only {amount_of_bytes(free)} "
            "are free",
            where=str(directory),
            fix="free some space, or lower `checkpoint.keep`; older checkpoints are untouched",
        )
