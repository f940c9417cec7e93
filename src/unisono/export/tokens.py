"""The texts of pieces, as other programs list them. No torch here."""

from unisono.text.load import BytePieces
from unisono.text.sentence_pieces import SentencePieces
from unisono.text.tokenizer import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID, Tokenizer

SPECIAL_TOKENS = {
    PADDING_ID: "<pad>",
    UNKNOWN_ID: "<unk>",
    BEGIN_ID: "<s>",
    END_ID: "</s>",
}


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """Return a token for each id: the piece, as SentencePiece itself writes it.

    A piece of an imported model that looks like a special one, or like another, gets its id.
    """
    if isinstance(tokenizer, SentencePieces):
        # Behind the vocabulary of a shared model come pieces that are unknown.
        texts = [piece.text for piece in tokenizer.pieces()][: tokenizer.size]
    else:
        texts = [f"<0x{byte:02X}>" for byte in range(-len(SPECIAL_TOKENS), 256)]
        texts = texts[: BytePieces.size]
    found = dict.fromkeys(SPECIAL_TOKENS[i] for i in range(len(SPECIAL_TOKENS)))
    for i, text in enumerate(texts[len(found) :], start=len(found)):
        found[f"{text}<{i}>" if text in found else text] = None
    return list(found)
