"""Whether a corpus is the one that some settings ask for."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unisono.corpus.manifest import Manifest

# Where it lies, and what to do with lines that are no text, leave a corpus as it is.
_OF_NO_CONSEQUENCE = {"directory", "invalid"}
# Files are known by their names; what is in them has a hash.
_FILES = {"pieces_model", "target_pieces_model"}
# How pieces are learnt, which is of no consequence if they are given.
_LEARNING = {"vocabulary", "pieces", "byte_fallback", "character_coverage", "learning_lines"}


@dataclass(frozen=True)
class Difference:
    """A setting that was another one when the corpus was made."""

    name: str
    then: Any
    now: Any


def recorded_settings(settings: msgspec.Struct) -> dict[str, Any]:
    """Return what a manifest records of the settings of a corpus."""
    values = _as_recorded(settings)
    del values["directory"]
    return values | {name: Path(values[name]).name for name in _FILES & values.keys()}


def differences(
    manifest: Manifest, settings: msgspec.Struct, languages: tuple[str, str]
) -> Iterator[Difference]:
    """Yield the settings by which this corpus was not made.

    A setting that the manifest does not know yet had the value that is now its default. One
    that knows none was not made by settings at all, and only its languages count.
    """
    now = recorded_settings(settings)
    then = _defaults(settings) | manifest.settings if manifest.settings else now
    names = ("source_language", "target_language")
    now |= dict(zip(names, languages, strict=True))
    then = then | {name: getattr(manifest, name) for name in names}
    given = now.get("pieces_model") and then.get("pieces_model")
    passed_over = _OF_NO_CONSEQUENCE | (_LEARNING if given else set())
    for name in sorted((now.keys() | then.keys()) - passed_over):
        if now.get(name) != then.get(name):
            yield Difference(name, then.get(name), now.get(name))


def _defaults(settings: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.fields(settings)
    values = {field.name: field.default for field in fields if not field.required}
    return _as_recorded(values)


def _as_recorded(values: object) -> dict[str, Any]:
    """Return `values` as they come back from a manifest."""
    return msgspec.json.decode(msgspec.json.encode(values), type=dict[str, Any])
