"""What an export cannot hold, said before anything is written. No torch here."""

from unisono.bundle.format import Description
from unisono.errors import ConfigError
from unisono.models.settings import TransformerSettings
from unisono.text.sentence_pieces import SentencePieces
from unisono.text.tokenizer import SHARED_KIND, Tokenizers

FORMATS = ("ctranslate2", "huggingface", "argos")
QUANTIZATIONS = (
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
)


def check_exportable(about: Description, to: str, *, where: str) -> None:
    """Raise a ConfigError with the first reason why this model cannot become that format."""
    reason, fix = _obstacle(about, to)
    if reason:
        raise ConfigError(f"{to} cannot hold this model: {reason}", where=where, fix=fix)


def check_quantization(to: str, quantization: str | None) -> None:
    """Raise a ConfigError if the format cannot store numbers like this."""
    if to == "huggingface" and quantization not in (None, "float16", "bfloat16"):
        raise ConfigError(
            f"the files of Hugging Face hold 32 or 16 bits, not {quantization}",
            where="--quantize",
            fix="leave it out, or choose float16 or bfloat16",
        )


def check_pieces(tokenizers: Tokenizers, to: str, *, where: str) -> None:
    """Raise a ConfigError if Hugging Face's tokenizers would split text in another way."""
    pieces = tokenizers.target
    if to != "huggingface" or pieces.kind == SHARED_KIND:
        return
    if not (isinstance(pieces, SentencePieces) and pieces.is_plain):
        raise ConfigError(
            "huggingface cannot hold this model: its SentencePiece model comes from elsewhere "
            "and changes text by rules or symbols of its own",
            where=where,
            fix="export it to ctranslate2, which can",
        )


def _obstacle(about: Description, to: str) -> tuple[str, str]:
    other = "export it to ctranslate2, which can"
    if to == "ctranslate2":
        return "", ""
    if about.tokenizer == SHARED_KIND:
        return _of_two_piece_models(about, to), other
    if about.tokenizer != "sentencepiece":
        return f"its pieces are {about.tokenizer}, not a SentencePiece model", other
    if not about.joint:
        what = "a package has" if to == "argos" else "its tokenizer there has"
        return f"it has a vocabulary for each language, and {what} room for one", other
    if about.tags:
        return f"its source lines may begin with tags ({', '.join(about.tags)})", other
    reason = _of_argos(about) if to == "argos" else _of_huggingface(about.model)
    return reason, other


def _of_two_piece_models(about: Description, to: str) -> str:
    """Say what is wrong with two piece models over one vocabulary, as Marian has them."""
    if to == "argos":
        return "it has a piece model for each language, and a package has room for one"
    if about.model.norm == "pre":
        return "it has a piece model for each language, which only Marian, with norms last, has"
    if about.lowercase or about.plain_quotes:
        what = "lowercase" if about.lowercase else "plain_quotes"
        return f"it was trained with `{what}`, which Marian's tokenizer does not do"
    return _of_huggingface(about.model)


def _of_argos(about: Description) -> str:
    if about.lowercase or about.plain_quotes:
        what = "lowercase" if about.lowercase else "plain_quotes"
        return f"it was trained with `{what}`, which the other program does not do"
    return ""


def _of_huggingface(model: TransformerSettings) -> str:
    if model.positions == "rotary":
        return "Pegasus and Marian have no rotary positions"
    if model.positions == "learned" and model.norm == "post":
        return "Marian forgets learned positions as soon as transformers saves it again"
    if model.activation not in ("relu", "gelu", "silu"):
        return f"Pegasus and Marian have no gated activation such as {model.activation}"
    return ""
