"""The files of an export: written with their proof or not at all, and checked when loaded.

`unisono.json` describes the model and holds the proof, and size and SHA-256 of all other files.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.bundle.format import Description, as_json
from unisono.bundle.reader import Bundle
from unisono.errors import DataError
from unisono.export.ctranslate2_model import tokens_of, write_ctranslate2
from unisono.export.engine import load_engine
from unisono.export.proof import LOWEST_DIFFERENCE, ExportProof
from unisono.text.load import load_tokenizers
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translator

DESCRIPTION_FILE = "unisono.json"
EXPORT_FORMAT = 1
FEWEST_POSITIONS = 512
# CTranslate2 makes its own batches; we only bound what is in flight.
TOKENS_IN_FLIGHT = 100_000


class ExportDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What `unisono.json` says."""

    format: int = EXPORT_FORMAT
    to: str
    quantization: str
    bundle: Description
    proof: ExportProof | None = None
    files: dict[str, atomic.Written] = {}


def write_export(
    path: Path,
    bundle: Bundle,
    quantization: str,
    prove: Callable[[Translator, float], ExportProof],
    *,
    force: bool,
    workers: int,
) -> ExportProof:
    """Write a CTranslate2 export of `bundle` to `path`, which must not exist, and prove it.

    `prove` compares the new translator, of so many megabytes, with the bundle. An export that
    loses too much is not kept unless `force`.
    """
    refuse_existing(path)
    about = bundle.description
    description = ExportDescription(to="ctranslate2", quantization=quantization, bundle=about)
    with atomic.new_directory(path) as directory:
        vocabularies = _tokens(bundle.tokenizers)
        write_ctranslate2(
            directory, bundle.model(), vocabularies, _positions(about), quantization
        )
        for name, content in bundle.tokenizers.files.items():
            atomic.write_bytes(directory / name, content)
        names = sorted(file.name for file in directory.iterdir())
        files = {name: atomic.written(directory / name) for name in names}
        megabytes = sum(file.bytes for file in files.values()) / 1e6
        after = _translator(directory, description, bundle.tokenizers, workers)
        proof = prove(after, megabytes)
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


def _refused(proof: ExportProof, path: Path) -> DataError:
    lost = proof.bleu.difference if proof.bleu else 0.0
    return DataError(
        f"the export loses {-lost:.2f} BLEU, more than {-LOWEST_DIFFERENCE}; it was not kept",
        where=str(path),
        fix="choose another --quantize, or none; --force keeps it all the same",
    )


def open_export(path: Path, workers: int) -> Translator:
    """Check every file of the export at `path` and return its translator."""
    if not (path / DESCRIPTION_FILE).is_file():
        raise DataError(
            f"this is no export of Unisono: it has no {DESCRIPTION_FILE}",
            where=str(path),
            fix="unisono export BUNDLE --to ctranslate2",
        )
    description = _read(path / DESCRIPTION_FILE)
    for name, expected in description.files.items():
        if how := atomic.difference(path / name, expected):
            raise _damaged(path / name, how)
    about = description.bundle
    tokenizers = load_tokenizers(about.tokenizer, path, joint=about.joint, tags=about.tags)
    return _translator(path, description, tokenizers, workers)


def _read(path: Path) -> ExportDescription:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ExportDescription)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    if found.format != EXPORT_FORMAT or found.to != "ctranslate2" or not found.files:
        raise _damaged(path, f"it describes format {found.format} of {found.to}")
    return found


def _damaged(path: Path, how: str) -> DataError:
    return DataError(
        f"{path.name} is damaged: {how}", where=str(path), fix="copy the export again"
    )


def _translator(
    directory: Path, description: ExportDescription, tokenizers: Tokenizers, workers: int
) -> Translator:
    about = description.bundle
    tokens = _tokens(tokenizers)
    engine = load_engine(directory, tokens, description.quantization, workers)
    return Translator(
        [],
        tokenizers,
        about.decoding,
        Normalisation(about.plain_quotes, about.lowercase),
        about.max_pieces,
        TOKENS_IN_FLIGHT,
        engine=engine,
        language=about.source_language,
    )


def _tokens(tokenizers: Tokenizers) -> tuple[list[str], list[str]]:
    return tokens_of(tokenizers.source), tokens_of(tokenizers.target)


def _positions(about: Description) -> int:
    """Return how many positions the longest translation takes, with room for a prefix."""
    decoding: Decoding = about.decoding
    longest = int(decoding.max_ratio * about.max_pieces) + decoding.max_extra
    return max(FEWEST_POSITIONS, 2 * longest + 2)
