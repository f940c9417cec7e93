"""Subwords: joint byte-pair encoding by SentencePiece.

Text is normalised before it comes here, so SentencePiece's own normalisation is off.
"""

import io
from collections.abc import Iterable, Sequence

import sentencepiece

from unisono.errors import ConfigError, DataError
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID

# The model file holds the number of threads, so it is fixed for the bytes to be the same
# everywhere; the pieces do not depend on it.
_THREADS = 2
_UNKNOWN_SURFACE = "\u2047"
_FATAL_ONLY = 3


class SentencePieces:
    """A learnt vocabulary of subwords. Characters it does not know decode as "⁇"."""

    kind = "sentencepiece"

    def __init__(self, model: bytes, *, where: str = "") -> None:
        self._processor = _processor_of(model, where)

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def model(self) -> bytes:
        return bytes(self._processor.serialized_model_proto())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        pieces: list[list[int]] = self._processor.encode(list(lines))
        return pieces

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        if len(ids) == 0:
            return []  # which SentencePiece would take for one empty line
        lines: list[str] = self._processor.decode([[int(i) for i in line] for line in ids])
        return lines


def learn_pieces(
    lines: Iterable[str], *, size: int, character_coverage: float
) -> SentencePieces:
    """Learn at most `size` pieces from normalised `lines`; the same lines, the same pieces.

    Text too poor for `size` pieces gives fewer.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            pad_id=PADDING_ID,
            unk_id=UNKNOWN_ID,
            bos_id=BEGIN_ID,
            eos_id=END_ID,
            unk_surface=_UNKNOWN_SURFACE,
            num_threads=_THREADS,
            minloglevel=_FATAL_ONLY,
        )
    except RuntimeError as error:
        if "smaller than required_chars" not in str(error):
            raise
        raise ConfigError(
            f"{size} pieces are fewer than the text has different characters",
            where="corpus.vocabulary",
            fix="raise it, or lower corpus.character_coverage to 0.9995",
        ) from error
    return SentencePieces(model.getvalue())


def _processor_of(model: bytes, where: str) -> sentencepiece.SentencePieceProcessor:
    fix = "prepare the corpus again, or restore the file from a copy"
    if not model:
        raise DataError("the model of pieces is empty", where=where, fix=fix)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise DataError("not a SentencePiece model", where=where, fix=fix) from error
    found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    expected = (PADDING_ID, UNKNOWN_ID, BEGIN_ID, END_ID)
    if found != expected:
        what = f"padding, unknown, begin and end have the ids {found}, not {expected}"
        raise DataError(what, where=where, fix=fix)
    # A file cut off between two pieces still loads, but without the settings at its end.
    if processor.decode([UNKNOWN_ID]) != _UNKNOWN_SURFACE:
        raise DataError("the model of pieces is cut off or foreign", where=where, fix=fix)
    return processor
