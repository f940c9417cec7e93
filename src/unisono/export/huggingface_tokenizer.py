"""The files of a tokenizer for Hugging Face's `tokenizers`, from a SentencePiece model.

It normalises as we do, so that a user of it need not.
"""

import json
from pathlib import Path
from typing import Any

from unisono.export.tokens import SPECIAL_TOKENS, tokens_of
from unisono.text.normalise import INVISIBLE, OTHER_SPACES, QUOTES
from unisono.text.sentence_pieces import Kind, Piece, SentencePieces
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID, Tokenizers

_MARIAN_SPECIALS = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
_MARK = "\u2581"


def write_tokenizer(
    directory: Path,
    pieces: SentencePieces,
    *,
    plain_quotes: bool,
    lowercase: bool,
    max_pieces: int,
) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` to `directory`."""
    listed = [
        Piece(SPECIAL_TOKENS[number], piece.score, Kind.CONTROL)
        if number in SPECIAL_TOKENS
        else piece
        for number, piece in enumerate(pieces.pieces())
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(number, token) for number, token in SPECIAL_TOKENS.items()],
        "normalizer": _normalizer(plain_quotes=plain_quotes, lowercase=lowercase),
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": _MARK,
            "prepend_scheme": "always",
            "split": pieces.encodes_words_alone,
        },
        "post_processor": _ending(),
        "decoder": _decoder(),
        "model": _bpe(listed) if pieces.is_bpe else _unigram(listed),
    }
    _write(directory / "tokenizer.json", tokenizer)
    names = {"pad": PADDING_ID, "unk": UNKNOWN_ID, "bos": BEGIN_ID, "eos": END_ID}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": SPECIAL_TOKENS[number] for name, number in names.items()},
        "model_max_length": max_pieces + 1,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    _write(directory / "tokenizer_config.json", settings)


def write_marian_tokenizer(
    directory: Path, tokenizers: Tokenizers, languages: tuple[str, str], max_pieces: int
) -> None:
    """Write the files of `MarianTokenizer`: two piece models over one vocabulary."""
    for name, side in (("source", tokenizers.source), ("target", tokenizers.target)):
        (directory / f"{name}.spm").write_bytes(side.model)
    tokens = tokens_of(tokenizers.target)
    _write(directory / "vocab.json", {token: number for number, token in enumerate(tokens)})
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        **{f"{name}_token": token for name, token in _MARIAN_SPECIALS.items()},
        "model_max_length": max_pieces + 1,
        "separate_vocabs": False,
    }
    _write(directory / "tokenizer_config.json", settings)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")


def _added(number: int, token: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": True}


def _normalizer(*, plain_quotes: bool, lowercase: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    if plain_quotes:
        steps += [_replace(f"[{some}]", plain) for plain, some in QUOTES.items()]
    if lowercase:
        steps.append({"type": "Lowercase"})
    steps += [
        _replace(INVISIBLE, ""),
        _replace(_MARK, "_"),
        {"type": "NFC"},
        _replace(f"[ \n{OTHER_SPACES}]+", " "),
        {"type": "Strip", "strip_left": True, "strip_right": True},
    ]
    return {"type": "Sequence", "normalizers": steps}


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _ending() -> dict[str, Any]:
    """Return the step that puts the end behind a line."""
    end = {"SpecialToken": {"id": SPECIAL_TOKENS[END_ID], "type_id": 0}}
    line = {"Sequence": {"id": "A", "type_id": 0}}
    other = {"Sequence": {"id": "B", "type_id": 0}}
    name = SPECIAL_TOKENS[END_ID]
    return {
        "type": "TemplateProcessing",
        "single": [line, end],
        "pair": [line, other, end],
        "special_tokens": {name: {"id": name, "ids": [END_ID], "tokens": [name]}},
    }


def _decoder() -> dict[str, Any]:
    mark = {"type": "Replace", "pattern": {"String": _MARK}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    steps = [mark, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]
    return {"type": "Sequence", "decoders": steps}


def _has_bytes(pieces: list[Piece]) -> bool:
    return any(piece.kind is Kind.BYTE for piece in pieces)


def _unigram(pieces: list[Piece]) -> dict[str, Any]:
    return {
        "type": "Unigram",
        "unk_id": UNKNOWN_ID,
        "vocab": [[piece.text, piece.score] for piece in pieces],
        "byte_fallback": _has_bytes(pieces),
    }


def _bpe(pieces: list[Piece]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": SPECIAL_TOKENS[UNKNOWN_ID],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": _has_bytes(pieces),
        "ignore_merges": False,
        "vocab": {piece.text: number for number, piece in enumerate(pieces)},
        "merges": _merges(pieces),
    }


def _merges(pieces: list[Piece]) -> list[list[str]]:
    """Return every way to merge two pieces into a third, in the order of the third's score."""
    normal = {piece.text: piece.score for piece in pieces if piece.kind is Kind.NORMAL}
    ordered = sorted(normal, key=lambda text: -normal[text])
    return [
        [text[:cut], text[cut:]]
        for text in ordered
        for cut in range(1, len(text))
        if text[:cut] in normal and text[cut:] in normal
    ]
