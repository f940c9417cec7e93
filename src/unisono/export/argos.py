"""A package for Argos Translate and LibreTranslate: a zip file with a CTranslate2 model."""

import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from unisono import __version__, atomic
from unisono.bundle.format import Description
from unisono.bundle.reader import Bundle
from unisono.export.engine import Ctranslate2Engine
from unisono.export.export_files import write_export
from unisono.export.proof import ExportProof
from unisono.export.proven_export import DESCRIPTION_FILE, refuse_existing
from unisono.text.tokenizer import pieces_files
from unisono.translate.translator import Translator

# How Argos Translate 1.11 searches, whatever the model recommends.
ARGOS_BEAM, ARGOS_LENGTH_PENALTY = 4, 0.2


def write_argos(
    path: Path,
    bundle: Bundle,
    quantization: str,
    prove: Callable[[Translator, float], ExportProof],
    *,
    force: bool,
    workers: int,
) -> ExportProof:
    """Write an `.argosmodel` of `bundle` to `path`, as `write_export` does a directory.

    The proof searches as Argos Translate does, with its beam and its length penalty.
    """
    path = path if path.suffix == ".argosmodel" else path.with_name(f"{path.name}.argosmodel")
    refuse_existing(path)

    def as_argos(after: Translator, megabytes: float) -> ExportProof:
        engine = after.engine
        if isinstance(engine, Ctranslate2Engine):
            native = (ARGOS_BEAM, ARGOS_LENGTH_PENALTY)
            after = replace(after, engine=replace(engine, native=native))
        return prove(after, megabytes)

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=atomic.TEMPORARY) as scratch:
        model = Path(scratch) / "model"
        proof = write_export(
            model, bundle, quantization, as_argos, force=force, workers=workers
        )
        packed = Path(scratch) / "packed"
        _pack(packed, model, bundle.description)
        atomic.sync(packed)
        packed.rename(path)
    atomic.sync(path.parent)
    return proof


def _pack(packed: Path, model: Path, about: Description) -> None:
    pieces, _ = pieces_files(joint=True)
    name = f"translate-{about.source_language}_{about.target_language}"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/metadata.json", json.dumps(_metadata(about), indent=2))
        for file in sorted(model.iterdir()):
            place = "sentencepiece.model" if file.name == pieces else f"model/{file.name}"
            if file.name == DESCRIPTION_FILE:
                place = DESCRIPTION_FILE
            archive.write(file, f"{name}/{place}")


def _metadata(about: Description) -> dict[str, str]:
    return {
        "package_version": "1.0",
        "argos_version": "1.9",
        "type": "translate",
        "from_code": about.source_language,
        "from_name": about.source_language,
        "to_code": about.target_language,
        "to_name": about.target_language,
        "credits": f"trained and exported with unisono {__version__}",
    }
