"""OpenSeq2Seq's settings as a TOML file that `unisono train` accepts."""

from pathlib import Path
from typing import Any

import tomli_w

from unisono.config.load import resolve
from unisono.errors import DataError
from unisono.foreign.openseq2seq.settings import Translation, settings_of
from unisono.foreign.openseq2seq.source import read_source

FIRST = ("seed", "data", "corpus", "model", "batching", "optimizer", "schedule", "train")


def read_settings(path: Path, processes: int = 0) -> Translation:
    """Return our settings for those at `path`, which is read and never run."""
    made = settings_of(read_source(path), processes)
    if "width" not in made.table.get("model", {}):
        raise DataError(
            f"{path} does not describe a Transformer whose sizes can be read",
            where=str(path),
            fix="\n         ".join(made.left[:5]) or "name another file of settings",
        )
    made.put("corpus", "directory", f"corpora/{path.stem}")
    if "train" not in made.table.setdefault("data", {}):
        made.left.append("data.train: no files of text are named that can be read")
    resolve(made.table, where=f"{path} as TOML")
    return made


def to_toml(made: Translation, name: str) -> str:
    """Return the file, with what was converted and what was left out in comments."""
    lines = [
        f"# Made by `unisono import config` from {_line(name)}, which was read and not run.",
        "# See the end for what could not be taken over. Everything else has its default.",
        "",
        tomli_w.dumps(_ordered(made.table)).rstrip(),
        "",
    ]
    if made.notes:
        lines += ["# How it was converted:", *(f"#  * {_line(note)}" for note in made.notes)]
    if made.left:
        lines += ["# Not taken over:", *(f"#  * {_line(entry)}" for entry in made.left)]
    return "\n".join(lines) + "\n"


def _ordered(table: dict[str, Any]) -> dict[str, Any]:
    names = [name for name in FIRST if name in table]
    return {name: table[name] for name in [*names, *(n for n in table if n not in names)]}


def _line(text: str) -> str:
    """Return `text` in one line, so that nothing in it can end the comment."""
    return "".join(c if c.isprintable() else " " for c in text)
