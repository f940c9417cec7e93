"""Subwords by SentencePiece: learnt here, or a model that somebody has already.

Text is normalised before it comes here, so a model learnt here takes it as it is. A model
made elsewhere may change the text further, and numbers its pieces in its own way; its file
stays as it is, and its ids are mapped to ours.
"""

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

import sentencepiece

from unisono.errors import ConfigError, DataError
from unisono.text.spm_proto import (
    Kind,
    ModelFile,
    Piece,
    read_model_file,
    read_pieces,
    with_controls,
)
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID

# The model file holds the number of threads, so it is fixed for the bytes to be the same
# everywhere; the pieces do not depend on it.
_THREADS = 2
# Byte pairs are counted in words; for unigrams SentencePiece takes about 21 bytes of memory
# for each character of the text.
UNIGRAM_CHARACTERS = 30_000_000
_LINES_AT_ONCE = 1000
_UNKNOWN_SURFACE = "\u2047"
_SPACE_MARK = "\u2581"
_FATAL_ONLY = 3
_NOTHING = -1  # the id of a special piece that a model does not have


class SentencePieces:
    """A learnt vocabulary of subwords. Characters it does not know decode as "⁇".

    `tags` are symbols of the model that are no text: what looks like one in a line is encoded
    like any other text, and they decode as nothing.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes, where: str = "", tags: Sequence[str] = ()) -> None:
        self.model = model
        self._processor, self.file = _load(model, where, tags)
        self.encodes_words_alone = _encodes_words_alone(self._processor, self.file)
        theirs = _their_ids(self._processor)
        self.size = len(theirs)
        self.tags = {tag: theirs.index(self._processor.piece_to_id(tag)) for tag in tags}
        # No table for a model that numbers its pieces as we do.
        self._theirs: list[int] = []
        self._ours: list[int] = []
        if theirs != list(range(self.size)):
            self._theirs = theirs
            self._ours = _inverse(theirs, self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        pieces: list[list[int]] = self._processor.encode(list(lines))
        if not self._ours:
            return pieces
        ours = self._ours.__getitem__
        return [list(map(ours, line)) for line in pieces]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        if len(ids) == 0:
            return []  # which SentencePiece would take for one empty line
        pieces = [[int(i) for i in line] for line in ids]
        if self._theirs:
            theirs = self._theirs
            pieces = [[theirs[i] for i in line if theirs[i] != _NOTHING] for line in pieces]
        lines: list[str] = self._processor.decode(pieces)
        return lines

    def pieces(self) -> list[Piece]:
        """Return what each id stands for; specials that the model lacks are empty controls."""
        theirs = read_pieces(self.model)
        return [
            Piece("", 0.0, Kind.CONTROL) if i == _NOTHING else theirs[i]
            for i in _their_ids(self._processor)
        ]


def learn_pieces(
    lines: Iterable[str],
    *,
    size: int,
    character_coverage: float,
    pieces: Literal["bpe", "unigram"] = "bpe",
    byte_fallback: bool = False,
    tags: Sequence[str] = (),
) -> SentencePieces:
    """Learn at most `size` pieces from normalised `lines`; the same lines, the same pieces.

    Text too poor for `size` pieces gives fewer. With `byte_fallback` 256 of the pieces are
    bytes, and characters that have no piece are spelled with them instead of being unknown.
    The `tags` are pieces from the start.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_counted(lines) if pieces == "bpe" else iter(_some(lines)),
            input_format="tsv" if pieces == "bpe" else "text",
            model_writer=model,
            model_type=pieces,
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            normalization_rule_name="identity",
            pad_id=PADDING_ID,
            unk_id=UNKNOWN_ID,
            bos_id=BEGIN_ID,
            eos_id=END_ID,
            user_defined_symbols=list(tags),
            unk_surface=_UNKNOWN_SURFACE,
            num_threads=_THREADS,
            minloglevel=_FATAL_ONLY,
        )
    except RuntimeError as error:
        if "!sentences_.empty()" in str(error):
            raise _nothing_to_learn_from() from error
        needed = re.search(r"smaller than required_chars. \d+ vs (\d+)", str(error))
        if not needed:
            raise
        raise _too_few(size, int(needed[1]), byte_fallback) from error
    return SentencePieces(model.getvalue(), tags=tags)


def _counted(lines: Iterable[str]) -> Iterator[str]:
    """Yield every different word and how often it occurs.

    Merges stay within words, so that the pieces are those of whole lines; but counting here
    is quicker, and the lines need not be kept.
    """
    counts: Counter[str] = Counter()
    lines = iter(lines)
    while some := " ".join(islice(lines, _LINES_AT_ONCE)):
        counts.update(some.split(" "))
    del counts[""]
    for word, count in counts.items():
        yield f"{word}\t{count}"


def _some(lines: Iterable[str]) -> list[str]:
    """Return lines chosen by chance, always the same, of not too many characters in all."""
    draw, share = random.Random(0), 1.0
    kept: list[tuple[float, str]] = []
    characters = 0
    for line in lines:
        rank = draw.random()
        if rank >= share:
            continue
        kept.append((rank, line))
        characters += len(line)
        while characters > UNIGRAM_CHARACTERS and len(kept) > 1:
            share /= 2
            kept = [(rank, line) for rank, line in kept if rank < share]
            characters = sum(len(line) for _, line in kept)
    return [line for _, line in kept]


def _too_few(size: int, needed: int, byte_fallback: bool) -> ConfigError:
    single = "the characters of the text" + (" and the 256 bytes" if byte_fallback else "")
    return ConfigError(
        f"{size} pieces are too few: {single} need {needed}",
        where="corpus.vocabulary",
        fix=f"set it to more than {needed}, or lower corpus.character_coverage to 0.9995",
    )


def _nothing_to_learn_from() -> DataError:
    return DataError(
        "no line of the training text is short enough to learn pieces from",
        where="[[data.train]]",
        fix="break it into sentences, one a line; lines of over 4,000 bytes are passed over",
    )


def _load(
    model: bytes, where: str, tags: Sequence[str]
) -> tuple[sentencepiece.SentencePieceProcessor, ModelFile]:
    fix = "restore the file from a copy, or make the pieces again"
    if not model:
        raise DataError("the model of pieces is empty", where=where, fix=fix)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise DataError("not a SentencePiece model", where=where, fix=fix) from error
    file = read_model_file(model, where, fix)
    if tags:
        _check_tags(model, where, tags)
        changed = with_controls(model, tags)
        processor = sentencepiece.SentencePieceProcessor(model_proto=changed)
    return processor, file


def _check_tags(model: bytes, where: str, tags: Sequence[str]) -> None:
    symbols = {p.text for p in read_pieces(model) if p.kind in (Kind.SYMBOL, Kind.CONTROL)}
    for tag in tags:
        if tag not in symbols:
            raise DataError(
                f"the model of pieces has no symbol {tag}",
                where=where,
                fix=f"learn it with `spm_train --user_defined_symbols={','.join(tags)}`, or "
                "let Unisono learn the pieces",
            )


def _their_ids(processor: sentencepiece.SentencePieceProcessor) -> list[int]:
    """Return the model's own ids in the order of ours: the four special ones, then the rest."""
    special = [0, 0, 0, 0]
    special[PADDING_ID] = processor.pad_id()
    special[UNKNOWN_ID] = processor.unk_id()
    special[BEGIN_ID] = processor.bos_id()
    special[END_ID] = processor.eos_id()
    return special + [i for i in range(processor.get_piece_size()) if i not in special]


def _inverse(theirs: list[int], count: int) -> list[int]:
    ours = [UNKNOWN_ID] * count
    for our, their in enumerate(theirs):
        if their != _NOTHING:
            ours[their] = our
    return ours


def _encodes_words_alone(
    processor: sentencepiece.SentencePieceProcessor, file: ModelFile
) -> bool:
    """Say whether the pieces of a word never depend on other words.

    Merges stay inside words if no piece has a space but at its front. Of unigram pieces the
    best sequence is looked for in the whole line, and rounding decides between equals. The
    mark of spaces must be a piece itself: unknown characters side by side are one piece.
    """
    if not (file.byte_pairs and file.plain):
        return False
    mark = processor.piece_to_id(_SPACE_MARK)
    if mark == processor.unk_id() or processor.is_control(mark) or processor.is_unused(mark):
        return False
    pieces = (processor.id_to_piece(i)[1:] for i in range(processor.get_piece_size()))
    return not any(_SPACE_MARK in rest or " " in rest for rest in pieces)
