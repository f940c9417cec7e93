"""The files of a bundle, format 1. No torch here.

A bundle is a directory. Its `manifest.json` has the size and SHA-256 of all other files.
"""

from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from unisono import atomic
from unisono.errors import DataError
from unisono.models.settings import TransformerSettings
from unisono.records.layout import RunDirectory
from unisono.small_files import PARSER_ERRORS, read_bytes, reason
from unisono.text.tokenizer import has_one_model, pieces_files
from unisono.translate.settings import Decoding

FORMAT = 1
DESCRIPTION, WEIGHTS, MANIFEST = "bundle.json", "model.safetensors", "manifest.json"

_FILE_SETS = [{DESCRIPTION, WEIGHTS, *pieces_files(joint=joint)} for joint in (True, False)]

S = TypeVar("S", bound=msgspec.Struct)


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The description of the model: `bundle.json`. Readers skip fields they do not know.

    `source_vocabulary` is 0 if source and target share `vocabulary`. `tags` are symbols that
    source lines may begin with. `bleu_signature` says how the BLEU among the `scores`, if
    there is one, was computed.
    """

    format: int = FORMAT
    created_with: str
    model: TransformerSettings
    vocabulary: Annotated[int, msgspec.Meta(ge=4)]
    source_vocabulary: Annotated[int, msgspec.Meta(ge=0)] = 0
    tokenizer: str
    tags: list[str] = []
    plain_quotes: bool = False
    lowercase: bool = False
    max_pieces: Annotated[int, msgspec.Meta(ge=1)]
    source_language: str
    target_language: str
    decoding: Decoding
    step: Annotated[int, msgspec.Meta(ge=0)]
    scores: dict[str, float] = {}
    bleu_signature: str = ""

    @property
    def joint(self) -> bool:
        """Say whether one model of pieces serves both languages."""
        return has_one_model(self.tokenizer, joint=not self.source_vocabulary)


class _Versioned(msgspec.Struct, frozen=True):
    format: int


class BundleManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a bundle."""

    format: int
    files: dict[str, atomic.Written]


def manifest_of(directory: Path) -> BundleManifest:
    """Return the manifest of the files in `directory`."""
    names = sorted(path.name for path in directory.iterdir() if path.name != MANIFEST)
    return BundleManifest(FORMAT, {name: atomic.written(directory / name) for name in names})


def as_json(content: msgspec.Struct) -> bytes:
    """Return `content` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def verify_bundle(directory: Path) -> None:
    """Raise an error unless every file of the bundle matches the manifest."""
    if not (directory / MANIFEST).is_file():
        raise DataError(
            f"this is not a bundle: it has no {MANIFEST}",
            where=str(directory),
            fix="name the `bundle` directory of a finished run",
        )
    files = read_json(directory / MANIFEST, BundleManifest).files
    if set(files) not in _FILE_SETS:
        raise damaged(directory / MANIFEST, f"it lists {', '.join(sorted(files))}")
    for name, entry in files.items():
        if how := atomic.difference(directory / name, entry):
            raise damaged(directory / name, how)


def read_json(path: Path, kind: type[S]) -> S:
    """Read the JSON file at `path`, which must have format 1."""
    try:
        content = read_bytes(path)
        version = msgspec.json.decode(content, type=_Versioned).format
        if version == FORMAT:
            return msgspec.json.decode(content, type=kind)
    except (OSError, *PARSER_ERRORS) as error:
        raise damaged(path, reason(error)) from error
    raise DataError(
        f"this version of Unisono does not know format {version}",
        where=str(path),
        fix="use the version of Unisono that wrote it, or a newer one",
    )


def damaged(path: Path, how: str) -> DataError:
    """Return the error for a damaged file."""
    return DataError(
        f"{path.name} is damaged: {how}", where=str(path), fix="copy the bundle again"
    )


def bundle_at(path: Path) -> Path:
    """Return the bundle that `path` is, or that the run at `path` holds."""
    run = RunDirectory(path)
    if run.bundle.is_dir() or (path / DESCRIPTION).is_file():
        return run.bundle if run.bundle.is_dir() else path
    if (path / "progress.json").is_file():
        what = "this is a checkpoint, not a bundle"
        fix = (
            f"unisono average {path.resolve().parents[1]} --checkpoints {path.name} --to BUNDLE"
        )
    elif run.config.is_file():
        what = "this run has no bundle: a run writes one when it finishes"
        fix = "continue it until it finishes, or make one: unisono average RUN --to BUNDLE"
    else:
        what = "there is no bundle here"
        fix = "name a finished run such as runs/demo, or a bundle; `unisono show` describes it"
    raise DataError(what, where=str(path), fix=fix)
