"""The settings that OpenSeq2Seq prints at the start of its log.

It prints a dictionary as Python's `pprint` does: one entry a line, those of inner tables
indented. Each entry is read by itself, so a line that is cut off, or that another process wrote
in between, costs one entry and not all.
"""

import ast
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """An object of which only the name is known, such as `tf.float32` or a class."""

    name: str

    @property
    def last(self) -> str:
        """Return the name without its modules."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Unreadable:
    """A value that is known only when the file runs; `why` explains it."""

    why: str


@dataclass(frozen=True)
class Parameters:
    """OpenSeq2Seq's parameters, those for training, for validation and for the test."""

    train: dict[str, object]
    valid: dict[str, object]
    test: dict[str, object]


def merged(base: dict[str, object], more: dict[str, object]) -> dict[str, object]:
    """Return `base` overridden by `more`, table by table, as OpenSeq2Seq does."""
    result = dict(base)
    for key, value in more.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def inner(table: dict[str, object], name: str) -> dict[str, object]:
    """Return the table `name` within `table`, empty if there is none."""
    value = table.get(name)
    return value if isinstance(value, dict) else {}


MOST_TABLE_LINES = 600
MOST_CHARACTERS = 50_000
MOST_DEPTH = 20

_ENTRY = re.compile(r"^[ {]'(\w+)': (.*)$")
_THING = re.compile(r"<(?:class '([\w.]+)'|function ([\w.<>]+) at 0x[0-9a-f]+|dtype: '(\w+)')>")
_MARK = "\x00"


class PrintedTable:
    """Collects the lines of one printed dictionary until it is closed."""

    def __init__(self) -> None:
        self.entries: dict[str, object] = {}
        self.damaged: list[str] = []
        self.is_open = True
        self._name, self._text, self._lines = "", "", 0

    def add(self, line: str) -> None:
        """Take the next line of the log; skip one that does not belong to the table."""
        self._lines += 1
        match = _ENTRY.match(line)
        if line.startswith("***") or self._lines > MOST_TABLE_LINES:
            self.close()
        elif match:
            self._finish()
            self._name, self._text = match[1], match[2]
        elif line.startswith("  ") and self._name:
            self._text += "\n" + line
        if self._closes(line):
            self.close()

    def close(self) -> None:
        """Read the last entry and end the table."""
        self._finish()
        self.is_open = False

    def _closes(self, line: str) -> bool:
        return self.is_open and line.endswith("}") and line[:1] in " {" and self._is_last()

    def _is_last(self) -> bool:
        return self._text.count("}") > self._text.count("{")

    def _finish(self) -> None:
        if not self._name:
            return
        text = self._text.strip().removesuffix(",")
        if self._is_last():
            text = text.removesuffix("}")
        try:
            self.entries[self._name] = literal(text)
        except ValueError:
            self.damaged.append(self._name)
        self._name = self._text = ""


def literal(text: str) -> object:
    """Read a printed value; classes and functions become symbols."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError("too long for a setting")
    marked = _THING.sub(lambda m: repr(_MARK + (m[1] or m[2] or m[3])), text)
    try:
        return _with_symbols(ast.literal_eval(marked))
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError("not a printed value") from error


def _with_symbols(value: object, depth: int = 0) -> object:
    if depth > MOST_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, str) and value.startswith(_MARK):
        return Symbol(value[1:])
    if isinstance(value, dict):
        return {str(key): _with_symbols(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_symbols(item, depth + 1) for item in value]
    return value
