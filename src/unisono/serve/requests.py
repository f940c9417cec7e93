"""What clients ask for: JSON or a form, checked; and the errors they understand.

LibreTranslate's clients look at the status and at `error` in a JSON object.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import parse_qs

from unisono.serve.settings import MOST_ALTERNATIVES, ServeLimits
from unisono.small_files import PARSER_ERRORS, json_table, reason

MOST_FIELDS = 50
AUTO = "auto"


class RequestError(Exception):
    """A request that is answered with an error; `retry_seconds` is when to try again."""

    def __init__(self, status: int, message: str, retry_seconds: int = 0) -> None:
        self.status, self.retry_seconds = status, retry_seconds
        super().__init__(message)


@dataclass(frozen=True)
class TextRequest:
    """Texts to translate; `is_list` says whether the client sent a list."""

    texts: tuple[str, ...]
    is_list: bool
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = 0
    wants_sentences: bool = False


def parse_fields(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the fields of a body: JSON if it says so or looks like it, else a form."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        raise RequestError(415, "send JSON or a URL-encoded form, not multipart/form-data")
    try:
        if "json" in kind or body.lstrip()[:1] == b"{":
            return json_table(body)
        fields = parse_qs(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except UnicodeDecodeError as error:
        raise RequestError(400, f"Invalid request: not UTF-8: {error.reason}") from error
    except PARSER_ERRORS as error:
        raise RequestError(400, f"Invalid request: {reason(error)}") from error
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def parse_texts(fields: Mapping[str, Any], limits: ServeLimits) -> TextRequest:
    """Return what `/translate` is asked for."""
    texts = _texts(fields, limits)
    format_ = _word(fields, "format", "text").lower()
    if format_ not in ("text", "html"):
        raise RequestError(400, f"Invalid request: format {format_!r} is neither text nor html")
    return TextRequest(
        texts=texts,
        is_list=isinstance(fields["q"], list),
        source=_word(fields, "source"),
        target=_word(fields, "target"),
        format=cast(Literal["text", "html"], format_),
        alternatives=_alternatives(fields.get("alternatives", 0)),
        wants_sentences=fields.get("sentences") in (True, "true", "1"),
    )


def parse_text(fields: Mapping[str, Any], limits: ServeLimits) -> str:
    """Return the text that `/detect` is asked about."""
    return "\n".join(_texts(fields, limits))


def _texts(fields: Mapping[str, Any], limits: ServeLimits) -> tuple[str, ...]:
    if fields.get("q") is None:
        raise RequestError(400, "Invalid request: missing q parameter")
    given = fields["q"]
    texts = given if isinstance(given, list) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise RequestError(400, "Invalid request: q is neither a text nor a list of texts")
    if len(texts) > limits.texts:
        raise RequestError(
            400, f"Invalid request: {len(texts):,} texts exceed the limit of {limits.texts:,}"
        )
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise RequestError(
            400,
            f"Invalid request: {characters:,} characters exceed the text limit of "
            f"{limits.characters:,}",
        )
    return tuple(texts)


def _word(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    value = fields.get(name, default)
    if not value and default:
        value = default
    if not value:
        raise RequestError(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str) or len(value) > 100:
        raise RequestError(400, f"Invalid request: {name} is not a short text")
    return value.strip()


def _alternatives(given: Any) -> int:
    try:
        count = int(given or 0)
    except (TypeError, ValueError):
        count = -1
    if not 0 <= count <= MOST_ALTERNATIVES:
        raise RequestError(
            400, f"Invalid request: alternatives is no number from 0 to {MOST_ALTERNATIVES}"
        )
    return count
