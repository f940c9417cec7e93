"""A ready [data] section for the texts of a corpus, to paste into a config."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from unisono.datasets.entry import Entry, Set

DATA_TOML = "data.toml"


def data_section(entry: Entry, sets: Iterable[Set], directory: Path) -> str:
    """Return [data] for `sets` in `directory`; the first valid and the first test set count."""
    source, target = entry.languages
    there = list(sets)
    lines = [
        f"# {entry.name}: {entry.description}",
        "# Paths are relative to the directory you start `unisono` in.",
        "",
        "[data]",
        f"source_language = {_quoted(source)}",
        f"target_language = {_quoted(target)}",
    ]
    for item in there:
        if item.role == "train":
            lines += ["", "[[data.train]]", *_pair(item, entry, directory)]
    for role in ("valid", "test"):
        found = [item for item in there if item.role == role]
        if not found:
            lines += ["", f"# [data.{role}]: there is no such set in this corpus; name one"]
            continue
        lines += ["", f"[data.{role}]", *_pair(found[0], entry, directory)]
        lines += [f"# or {item.name}{_note(item)}" for item in found[1:]]
    return "\n".join(lines) + "\n"


def _pair(item: Set, entry: Entry, directory: Path) -> Iterator[str]:
    if item.note:
        yield f"# {item.note}"
    for side, language in zip(("source", "target"), entry.languages, strict=True):
        yield f"{side} = {_quoted(str(directory / f'{item.name}.{language}'))}"


def _note(item: Set) -> str:
    return f": {item.note}" if item.note else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # also a string of TOML
