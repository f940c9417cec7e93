"""The pieces of a Marian or Pegasus directory of Hugging Face, in our order. No torch here.

Their ids are the rows of their matrices. Ours begin with padding, unknown, begin and end. A
decoder of theirs may begin with padding: that row is our begin, and our padding is a new row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from unisono.errors import DataError
from unisono.small_files import json_table, read_bytes, read_parsed, reason
from unisono.text.normalise import Normalisation, tag_fault
from unisono.text.sentence_pieces import Kind, SentencePieces
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID, Tokenizers

MODEL_TYPES = ("marian", "pegasus")
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")  # by our ids
PEGASUS_OFFSET = 103  # ids that Pegasus keeps for pretraining, before those of its pieces
PEGASUS_END = 1
PEGASUS_UNKNOWN = 2  # of its SentencePiece model
MOST_PIECES = 1_000_000
_WHOLE = "name a directory that `save_pretrained` of model and tokenizer wrote"


@dataclass(frozen=True)
class ForeignPieces:
    """Tokenizers in our order, and `rows`: the row of theirs for each id; -1 is a new one."""

    config: Mapping[str, Any]
    rows: tuple[int, ...]
    tokenizers: Tokenizers
    languages: tuple[str, str]
    normalisation: Normalisation = Normalisation()


def is_huggingface(path: Path) -> bool:
    """Say whether `path` is a directory with the configuration of a Hugging Face model."""
    config = path / "config.json"
    return config.is_file() and "model_type" in read_parsed(config, json_table)


def read_pieces(path: Path) -> ForeignPieces:
    """Read the configuration and the pieces of the directory at `path`."""
    config = read_parsed(path / "config.json", json_table, fix=_WHOLE)
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise DataError(
            f"a {kind} model cannot be imported: only {' and '.join(MODEL_TYPES)} can",
            where=str(path / "config.json"),
            fix="name a translation model of one of these kinds",
        )
    about = path / "tokenizer_config.json"
    settings = read_parsed(about, json_table) if about.is_file() else {}
    languages = (str(settings.get("source_lang") or ""), str(settings.get("target_lang") or ""))
    names, specials = _marian(path) if kind == "marian" else _pegasus(path, config, settings)
    start = _id(path, config, "decoder_start_token_id", len(names))
    padding = _id(path, config, "pad_token_id", len(names))
    end = _id(path, config, "eos_token_id", len(names))
    first = (-1 if start == padding else padding, specials["<unk>"], start, end)
    rows = (*first, *(row for row in range(len(names)) if row not in first))
    texts = [*SPECIALS, *(names[row] for row in rows[len(SPECIALS) :])]
    return ForeignPieces(config, rows, _tokenizers(path, kind, texts), languages)


def _marian(path: Path) -> tuple[list[str], dict[str, int]]:
    """Return the text of each row, and the rows of special pieces."""
    if (path / "target_vocab.json").is_file():
        raise DataError(
            "it has a vocabulary for each language, which is not supported",
            where=str(path / "target_vocab.json"),
            fix="name a model with one vocab.json",
        )
    ids = read_parsed(path / "vocab.json", json_table, fix=_WHOLE)
    by_id = {number: text for text, number in ids.items()}
    if len(ids) > MOST_PIECES or sorted(by_id) != list(range(len(ids))) or "<unk>" not in ids:
        raise DataError(
            "vocab.json is not a list of pieces numbered from 0 with <unk> among them",
            where=str(path / "vocab.json"),
            fix=_WHOLE,
        )
    return [by_id[number] for number in range(len(ids))], {"<unk>": ids["<unk>"]}


def _pegasus(
    path: Path, config: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[list[str], dict[str, int]]:
    if not (path / "spiece.model").is_file():
        raise DataError(
            "spiece.model is missing: a tokenizer.json alone does not say how its text is "
            "normalised in terms that SentencePiece has",
            where=str(path),
            fix="put the SentencePiece model of this tokenizer there as spiece.model",
        )
    offset = settings.get("offset", PEGASUS_OFFSET)
    pieces = [piece.piece for piece in _proto(path / "spiece.model").pieces]
    if not isinstance(offset, int) or not 0 <= offset <= MOST_PIECES:
        raise DataError("`offset` is no count", where=str(path / "tokenizer_config.json"))
    rows = config.get("vocab_size")
    if not isinstance(rows, int) or not offset + len(pieces) <= rows <= MOST_PIECES:
        raise DataError(
            f"the model has {rows} rows for {len(pieces)} pieces and {offset} reserved ids",
            where=str(path / "config.json"),
            fix="name a directory whose spiece.model belongs to its weights",
        )
    unknown = offset + PEGASUS_UNKNOWN
    names = [f"<reserved {row}>" for row in range(unknown)] + pieces[PEGASUS_UNKNOWN:]
    return [*names, *(f"<reserved {row}>" for row in range(len(names), rows))], {
        "<unk>": unknown
    }


def _tokenizers(path: Path, kind: str, texts: Sequence[str]) -> Tokenizers:
    if kind == "pegasus":
        pieces = SentencePieces(_renumbered(path / "spiece.model", texts), str(path))
        return Tokenizers(pieces, pieces)
    # Codes such as >>fr<< stand before a line and name the language to translate into.
    codes = [t for t in texts if t.startswith(">>") and t.endswith("<<") and not tag_fault(t)]
    source = _renumbered(path / "source.spm", texts, codes)
    target = _renumbered(path / "target.spm", texts)
    return Tokenizers(
        SentencePieces(source, str(path / "source.spm"), codes, shared=True),
        SentencePieces(target, str(path / "target.spm"), shared=True),
    )


def _renumbered(path: Path, texts: Sequence[str], codes: Sequence[str] = ()) -> bytes:
    """Return the SentencePiece model at `path` with its pieces in the order of `texts`.

    What it lacks is unused. What `texts` lack comes last: it is found in text, and unknown.
    """
    proto = _proto(path)
    theirs = {p.piece: p for p in proto.pieces if p.type not in (Kind.UNKNOWN, Kind.CONTROL)}
    rest = [piece for text, piece in theirs.items() if text not in set(texts)]
    made = ModelProto()
    made.CopyFrom(proto)
    del made.pieces[:]
    for number, text in enumerate(texts):
        known = theirs.get(text) if number >= len(SPECIALS) else None
        piece = made.pieces.add(piece=text, score=known.score if known else 0.0)
        piece.type = known.type if known else _kind(number, text, codes)
    for piece in rest:
        made.pieces.add(piece=piece.piece, score=piece.score, type=piece.type)
    spec = made.trainer_spec
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIALS
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = (
        PADDING_ID,
        UNKNOWN_ID,
        BEGIN_ID,
        END_ID,
    )
    spec.vocab_size = len(texts)
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def _kind(number: int, text: str, codes: Sequence[str]) -> Kind:
    if number == UNKNOWN_ID:
        return Kind.UNKNOWN
    if number < len(SPECIALS):
        return Kind.CONTROL
    return Kind.USER_DEFINED if text in codes else Kind.UNUSED


def _proto(path: Path) -> Any:
    try:
        return ModelProto.FromString(read_bytes(path))
    except (OSError, DecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path.name} cannot be read as a SentencePiece model: {reason(error)}",
            where=str(path),
            fix=_WHOLE,
        ) from error


def _id(path: Path, config: Mapping[str, Any], name: str, count: int) -> int:
    value = config.get(name)
    if not isinstance(value, int) or not 0 <= value < count:
        raise DataError(
            f"`{name}` is {value!r}, and the vocabulary has {count} pieces",
            where=str(path / "config.json"),
            fix=_WHOLE,
        )
    return value
