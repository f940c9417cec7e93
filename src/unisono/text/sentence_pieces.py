"""Subwords by SentencePiece: learn a model, or use one from elsewhere.

Text is already normalised, so a model learnt here takes it as it is. A model from elsewhere
may change the text further, and numbers its pieces in its own way; its file stays as it is,
and its ids are mapped to ours.
"""

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Any, Literal

import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from unisono.errors import ConfigError, DataError
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, SHARED_KIND, UNKNOWN_ID

# The model file contains the number of threads, so a fixed number makes its bytes the same
# everywhere. The pieces do not depend on it.
_THREADS = 2
# BPE learns from counted words; for unigrams SentencePiece takes about 21 bytes of memory for
# each character of the text.
UNIGRAM_CHARACTERS = 30_000_000
_LINES_AT_ONCE = 1000
_UNKNOWN_SURFACE = "\u2047"
_SPACE_MARK = "\u2581"
_FATAL_ONLY = 3
_ABSENT = -1  # the id of a special piece that a model does not have
_FIX = "restore the file from a copy, or learn the pieces again"


class Kind(IntEnum):
    """The type of a piece, as SentencePiece numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # never found in text, and decoded as nothing
    USER_DEFINED = 4  # found in text before anything else, and never split
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """A piece of a model. Of two possible merges the one with the higher score comes first."""

    text: str
    score: float
    kind: Kind


class SentencePieces:
    """A learnt vocabulary of subwords. Unknown characters decode as "⁇".

    `tags` are user-defined symbols of the model that are not text: what looks like one in a
    line is encoded as ordinary text, and a tag decodes as nothing. `is_bpe` says whether the
    model merges pairs, `space_as_suffix` whether it marks spaces behind words, `is_plain`
    whether it takes text as it is, without rules or symbols of its own.

    A `shared` model is one of two whose ids are those of one vocabulary, in its order: pieces
    of the other are unused, and its own that the vocabulary lacks come last and are unknown.
    """

    kind = "sentencepiece"

    def __init__(
        self,
        model: bytes,
        where: str = "",
        tags: Sequence[str] = (),
        *,
        shared: bool = False,
    ) -> None:
        self.model = model
        if shared:
            self.kind = SHARED_KIND
        self._processor, proto = _load(model, where, tags)
        self.is_bpe = proto.trainer_spec.model_type == TrainerSpec.BPE
        self.space_as_suffix = bool(proto.trainer_spec.treat_whitespace_as_suffix)
        self.encodes_words_alone = self.is_bpe and _splits_at_spaces(self._processor, proto)
        self.is_plain = _takes_text_as_it_is(proto)
        theirs = _their_ids(self._processor)
        if shared:
            theirs = theirs[: proto.trainer_spec.vocab_size]
        self.size = len(theirs)
        self.tags = {tag: theirs.index(self._processor.piece_to_id(tag)) for tag in tags}
        # A model that numbers its pieces as we do needs no table.
        self._theirs: list[int] = []
        self._ours: list[int] = []
        count = self._processor.get_piece_size()
        if theirs != list(range(count)):
            self._theirs = theirs
            self._ours = _inverse(theirs, count)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        pieces: list[list[int]] = self._processor.encode(list(lines))
        if not self._ours:
            return pieces
        ours = self._ours.__getitem__
        return [list(map(ours, line)) for line in pieces]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        if len(ids) == 0:
            return []  # SentencePiece would return one empty line
        pieces = [[int(i) for i in line] for line in ids]
        if self._theirs:
            theirs = self._theirs
            pieces = [[theirs[i] for i in line if theirs[i] != _ABSENT] for line in pieces]
        lines: list[str] = self._processor.decode(pieces)
        return lines

    def pieces(self) -> list[Piece]:
        """Return the piece of each id; specials that the model lacks are empty controls."""
        theirs = ModelProto.FromString(self.model).pieces
        return [
            Piece("", 0.0, Kind.CONTROL)
            if i == _ABSENT
            else Piece(theirs[i].piece, theirs[i].score, Kind(theirs[i].type))
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

    A small text gives fewer pieces. With `byte_fallback` 256 of the pieces are bytes, which
    encode the characters without a piece instead of leaving them unknown. Each of the `tags`
    becomes a user-defined piece.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_count_words(lines) if pieces == "bpe" else iter(_sample(lines)),
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


def _count_words(lines: Iterable[str]) -> Iterator[str]:
    """Yield every distinct word and its count.

    Merges stay within words, so that the pieces are the same as from whole lines; but counting
    here is faster, and the lines need not stay in memory.
    """
    counts: Counter[str] = Counter()
    lines = iter(lines)
    while some := " ".join(islice(lines, _LINES_AT_ONCE)):
        counts.update(some.split(" "))
    del counts[""]
    for word, count in counts.items():
        yield f"{word}\t{count}"


def _sample(lines: Iterable[str]) -> list[str]:
    """Return a random sample of bounded size, the same one every time."""
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
        fix="break it into sentences, one per line; SentencePiece skips lines over 4,000 bytes",
    )


def _load(
    model: bytes, where: str, tags: Sequence[str]
) -> tuple[sentencepiece.SentencePieceProcessor, Any]:
    if not model:
        raise DataError("the model of pieces is empty", where=where, fix=_FIX)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for number in range(processor.get_piece_size()):
            processor.id_to_piece(number)  # fails on a piece that is not UTF-8
    except (RuntimeError, UnicodeDecodeError) as error:
        raise DataError("not a SentencePiece model", where=where, fix=_FIX) from error
    proto = _parse(model, where)
    if tags:
        _turn_into_controls(proto, where, tags)
        changed = proto.SerializeToString()
        processor = sentencepiece.SentencePieceProcessor(model_proto=changed)
    return processor, proto


def _parse(model: bytes, where: str) -> Any:
    """Parse a model; SentencePiece itself accepts a file that ends between two pieces."""
    what = "the model of pieces is truncated or damaged"
    try:
        proto = ModelProto.FromString(model)
    except (DecodeError, UnicodeDecodeError) as error:
        raise DataError(what, where=where, fix=_FIX) from error
    if not (proto.HasField("trainer_spec") and proto.HasField("normalizer_spec")):
        raise DataError(what, where=where, fix=_FIX)
    return proto


def _turn_into_controls(proto: Any, where: str, tags: Sequence[str]) -> None:
    """Make control pieces of the tags, so that SentencePiece never finds them in text."""
    symbols = {p.piece: p for p in proto.pieces if p.type in (Kind.USER_DEFINED, Kind.CONTROL)}
    for tag in tags:
        if tag not in symbols:
            raise DataError(
                f"the model of pieces has no symbol {tag}",
                where=where,
                fix=f"learn it with `spm_train --user_defined_symbols={','.join(tags)}`, or "
                "let Unisono learn the pieces",
            )
        symbols[tag].type = Kind.CONTROL


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
        if their != _ABSENT:
            ours[their] = our
    return ours


def _takes_text_as_it_is(proto: Any) -> bool:
    normalizer = proto.normalizer_spec
    usual = normalizer.add_dummy_prefix and normalizer.escape_whitespaces
    changed = normalizer.precompiled_charsmap or proto.trainer_spec.treat_whitespace_as_suffix
    own = (Kind.USER_DEFINED, Kind.UNUSED)
    return bool(usual and not changed and not any(p.type in own for p in proto.pieces))


def _splits_at_spaces(processor: sentencepiece.SentencePieceProcessor, proto: Any) -> bool:
    """Say whether a BPE model encodes each word the same, whatever words stand next to it.

    It does if it takes the text as it is, with a mark for each space and one at the front, and
    if no piece has a space but at its front. The mark must be a piece itself: neighbouring
    unknown characters become one piece. (A unigram model finds the best sequence for the whole
    line, and rounding decides between equals.)
    """
    normalizer = proto.normalizer_spec
    if normalizer.precompiled_charsmap or proto.trainer_spec.treat_whitespace_as_suffix:
        return False
    if not (normalizer.add_dummy_prefix and normalizer.escape_whitespaces):
        return False
    mark = processor.piece_to_id(_SPACE_MARK)
    if mark == processor.unk_id() or processor.is_control(mark) or processor.is_unused(mark):
        return False
    pieces = (processor.id_to_piece(i)[1:] for i in range(processor.get_piece_size()))
    return not any(_SPACE_MARK in rest or " " in rest for rest in pieces)
