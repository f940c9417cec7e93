"""What an export cannot hold, said before anything is written. No torch here."""

from unisono.bundle.format import Description
from unisono.errors import ConfigError
from unisono.text.tokenizer import SHARED_KIND

FORMATS = ("ctranslate2", "argos")
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


def _obstacle(about: Description, to: str) -> tuple[str, str]:
    other = "export it to ctranslate2, which can"
    if about.model.output_bias or about.tokenizer == SHARED_KIND:
        return "it comes from another program, with a bias or pieces of its own", (
            "use the original: ctranslate2 has converters for it"
        )
    if to == "ctranslate2":
        return "", ""
    if about.tokenizer != "sentencepiece":
        return f"its pieces are {about.tokenizer}, not a SentencePiece model", other
    if not about.joint:
        return "it has a vocabulary for each language, and a package has room for one", other
    if about.lowercase or about.plain_quotes:
        what = "lowercase" if about.lowercase else "plain_quotes"
        return f"it was trained with `{what}`, which the other program does not do", other
    if about.tags:
        return f"its source lines may begin with tags ({', '.join(about.tags)})", other
    return "", ""
