"""An export for Hugging Face's transformers, proved by the real one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from unisono.export.huggingface_tokenizer import write_marian_tokenizer, write_tokenizer
from unisono.export.length_penalty_fit import fitted_length_penalty, typical_length_penalty
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
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, SHARED_KIND
from unisono.translate.beam import length_penalty
from unisono.translate.settings import Decoding
from unisono.translate.translator import Translation

TOKENS_AT_ONCE = 2000


@dataclass(frozen=True, eq=False)
class HuggingfaceTranslator:
    """Tokenizer and model as transformers loads them, with the settings they carry.

    They are loaded when they are needed: their threads would stop the workers that our own
    search forks in a proof.

    transformers keeps and ends the same prefixes as our search does, but ranks what has ended
    by another length penalty. A translation is the best by ours; `native` is the one that
    `generate` puts first.
    """

    directory: Path
    language: str
    decoding: Decoding

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
            both = list(islice(found, len(parts)))
            best, native = (side_by_side([pair[n] for pair in both]) for n in (0, 1))
            yield Translation(best, len(parts), native=native)

    def _parts(self, line: str) -> list[str]:
        spans = split_to_fit(line, self._fits, self.language)
        return [line[start:end] for start, end in spans if self._length(line[start:end]) > 1]

    def _fits(self, text: str) -> bool:
        return self._length(text) <= int(self.tokenizer.model_max_length)

    def _length(self, text: str) -> int:
        return len(self.tokenizer(text).input_ids)

    def _search(self, texts: list[str]) -> list[tuple[str, str]]:
        lengths = [self._length(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda place: -lengths[place])
        found: dict[int, tuple[str, str]] = {}
        while order:
            count = max(1, TOKENS_AT_ONCE // lengths[order[0]])
            some, order = order[:count], order[count:]
            found |= zip(some, self._generate([texts[place] for place in some]), strict=True)
        return [found[place] for place in range(len(texts))]

    @torch.inference_mode()
    def _generate(self, texts: list[str]) -> list[tuple[str, str]]:
        """Return the best translation of each text by our ranking, and by theirs."""
        inputs = self.tokenizer(texts, return_tensors="pt", padding=True)
        beams = self.model.generation_config.num_beams
        found = self.model.generate(
            **inputs,
            num_return_sequences=beams,
            return_dict_in_generate=True,
            output_scores=True,
        )
        if beams == 1:
            rows = self._decoded(found.sequences)
            return list(zip(rows, rows, strict=True))
        penalty = self.model.generation_config.length_penalty
        ranked = [
            self._rank(ids, score, penalty)
            for ids, score in zip(
                found.sequences.tolist(), found.sequences_scores.tolist(), strict=True
            )
        ]
        firsts = range(0, len(ranked), beams)
        best = [max(range(n, n + beams), key=ranked.__getitem__) for n in firsts]
        ours, theirs = (self._decoded(found.sequences[list(rows)]) for rows in (best, firsts))
        return list(zip(ours, theirs, strict=True))

    def _rank(self, ids: list[int], score: float, penalty: float) -> float:
        """Return our score of a translation, given theirs, which counts the end."""
        pieces = sum(i not in (PADDING_ID, BEGIN_ID, END_ID) for i in ids)
        their_penalty = float((pieces + 1) ** penalty)
        return score * their_penalty / length_penalty(pieces, self.decoding)

    def _decoded(self, rows: Any) -> list[str]:
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
    fit_to: Sequence[str] = (),
) -> ExportProof:
    """Write an export of `bundle` for transformers to `path`, as `write_export` does.

    Its length penalty is the one that ranks the translations of `fit_to` most as ours does.
    The proof translates with the generation settings that the export carries, and says how
    many translations are the same by our ranking and by that of transformers.
    """
    about = bundle.description
    description = ExportDescription(to="huggingface", quantization=quantization, bundle=about)

    def fill(directory: Path) -> None:
        rows = position_rows_of(about)
        if fit_to:
            penalty = fitted_length_penalty(bundle.translator(), fit_to, workers)
        else:
            penalty = typical_length_penalty(about.decoding)
        write_huggingface_model(directory, bundle.model(), about, rows, quantization, penalty)
        if bundle.tokenizers.kind == SHARED_KIND:
            languages = about.source_language, about.target_language
            write_marian_tokenizer(directory, bundle.tokenizers, languages, about.max_pieces)
        elif isinstance(bundle.tokenizers.target, SentencePieces):
            write_tokenizer(
                directory,
                bundle.tokenizers.target,
                plain_quotes=about.plain_quotes,
                lowercase=about.lowercase,
                max_pieces=about.max_pieces,
            )

    def load(directory: Path) -> HuggingfaceTranslator:
        return HuggingfaceTranslator(directory, about.source_language, about.decoding)

    return write_proven(path, description, fill, load, prove, force=force)


def open_huggingface(path: Path) -> HuggingfaceTranslator:
    """Check every file of the export at `path` and return its translator."""
    about = read_export(path, "huggingface").bundle
    return HuggingfaceTranslator(path, about.source_language, about.decoding)


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
