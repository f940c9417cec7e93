"""An export for CTranslate2: a directory that CTranslate2 loads as it is."""

from collections.abc import Callable
from pathlib import Path

from unisono import atomic
from unisono.bundle.reader import Bundle
from unisono.export.ctranslate2_model import write_ctranslate2
from unisono.export.engine import load_engine
from unisono.export.proof import ExportProof
from unisono.export.proven_export import (
    ExportDescription,
    position_rows_of,
    read_export,
    write_proven,
)
from unisono.export.tokens import tokens_of
from unisono.text.load import load_tokenizers
from unisono.text.normalise import Normalisation
from unisono.text.tokenizer import Tokenizers
from unisono.translate.translator import Translator

# CTranslate2 makes its own batches; we only bound what is in flight.
TOKENS_IN_FLIGHT = 100_000


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
    about = bundle.description
    description = ExportDescription(to="ctranslate2", quantization=quantization, bundle=about)

    def fill(directory: Path) -> None:
        vocabularies = _tokens(bundle.tokenizers)
        write_ctranslate2(
            directory, bundle.model(), vocabularies, position_rows_of(about), quantization
        )
        for name, content in bundle.tokenizers.files.items():
            atomic.write_bytes(directory / name, content)

    def load(directory: Path) -> Translator:
        return _translator(directory, description, bundle.tokenizers, workers)

    return write_proven(path, description, fill, load, prove, force=force)


def open_export(path: Path, workers: int) -> Translator:
    """Check every file of the export at `path` and return its translator."""
    description = read_export(path, "ctranslate2")
    about = description.bundle
    tokenizers = load_tokenizers(about.tokenizer, path, joint=about.joint, tags=about.tags)
    return _translator(path, description, tokenizers, workers)


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
