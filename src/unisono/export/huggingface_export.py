"""An export for Hugging Face's transformers, proved by the real one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging

from unisono.bundle.reader import Bundle
from unisono.errors import DataError
from unisono.export.huggingface_model import write_huggingface_model
from unisono.export.huggingface_tokenizer import write_tokenizer
from unisono.export.proof import ExportProof
from unisono.export.proven_export import (
    ExportDescription,
    position_rows_of,
    read_export,
    write_proven,
)
from unisono.text.document_parts import side_by_side
from unisono.text.long_sentences import split_to_fit
from unisono.text.sentence_pieces import SentencePieces
from unisono.translate.translator import Translation

TOKENS_AT_ONCE = 2000


@dataclass(frozen=True, eq=False)
class HuggingfaceTranslator:
    """Tokenizer and model as transformers loads them, with the settings they carry.

    They are loaded when they are needed: their threads would stop the workers that our own
    search forks in a proof.
    """

    directory: Path
    language: str

    @cached_property
    def tokenizer(self) -> Any:
        """Return their tokenizer."""
        with _loading(self.directory):
            return AutoTokenizer.from_pretrained(str(self.directory), local_files_only=True)

    @cached_property
    def model(self) -> Any:
        """Return their model."""
        logging.disable_progress_bar()
        with _loading(self.directory):
            model = AutoModelForSeq2SeqLM.from_pretrained(
                str(self.directory), local_files_only=True, dtype="auto"
            )
        return model.eval()

    def translate_stream(
        self, lines: Iterable[str], batch_lines: int = 1000, workers: int = 1
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order; one process does it all."""
        remaining = iter(lines)
        while batch := list(islice(remaining, batch_lines)):
            yield from self._translated(batch)

    def _translated(self, lines: list[str]) -> Iterator[Translation]:
        split = [self._parts(line) for line in lines]
        found = iter(self._search([part for parts in split for part in parts]))
        for parts in split:
            yield Translation(side_by_side(list(islice(found, len(parts)))), len(parts))

    def _parts(self, line: str) -> list[str]:
        spans = split_to_fit(line, self._fits, self.language)
        return [line[start:end] for start, end in spans if self._length(line[start:end]) > 1]

    def _fits(self, text: str) -> bool:
        return self._length(text) <= int(self.tokenizer.model_max_length)

    def _length(self, text: str) -> int:
        return len(self.tokenizer(text).input_ids)

    def _search(self, texts: list[str]) -> list[str]:
        lengths = [self._length(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda place: -lengths[place])
        found: dict[int, str] = {}
        while order:
            count = max(1, TOKENS_AT_ONCE // lengths[order[0]])
            some, order = order[:count], order[count:]
            found |= zip(some, self._generate([texts[place] for place in some]), strict=True)
        return [found[place] for place in range(len(texts))]

    @torch.inference_mode()
    def _generate(self, texts: list[str]) -> list[str]:
        inputs = self.tokenizer(texts, return_tensors="pt", padding=True)
        rows = self.model.generate(**inputs)
        return [
            str(text) for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        ]


def write_huggingface(
    path: Path,
    bundle: Bundle,
    quantization: str,
    prove: Callable[[HuggingfaceTranslator, float], ExportProof],
    *,
    force: bool,
    workers: int,
) -> ExportProof:
    """Write an export of `bundle` for transformers to `path`, as `write_export` does.

    The proof translates with the generation settings that the export carries.
    """
    about = bundle.description
    description = ExportDescription(to="huggingface", quantization=quantization, bundle=about)

    def fill(directory: Path) -> None:
        rows = position_rows_of(about)
        write_huggingface_model(directory, bundle.model(), about, rows, quantization)
        if isinstance(bundle.tokenizers.target, SentencePieces):
            write_tokenizer(
                directory,
                bundle.tokenizers.target,
                plain_quotes=about.plain_quotes,
                lowercase=about.lowercase,
                max_pieces=about.max_pieces,
            )

    def load(directory: Path) -> HuggingfaceTranslator:
        return HuggingfaceTranslator(directory, about.source_language)

    return write_proven(path, description, fill, load, prove, force=force)


def open_huggingface(path: Path) -> HuggingfaceTranslator:
    """Check every file of the export at `path` and return its translator."""
    language = read_export(path, "huggingface").bundle.source_language
    return HuggingfaceTranslator(path, language)


@contextmanager
def _loading(directory: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"transformers cannot load this model: {error}",
            where=str(directory),
            fix="export it again",
        ) from error
