"""Text from others on its way to a terminal, which obeys some characters and shows the rest.

`guard_output` puts a filter before standard output and standard error, so that no name or text
can move the cursor, set the title or hide a line, whatever prints it.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, TextIO, cast
from unicodedata import category

from unisono.errors import ConfigError, UnisonoError

INSTEAD = "\N{REPLACEMENT CHARACTER}"
# Invisible, harmless, and common in Persian and in scripts of India.
JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
LAYOUT = "\n\t"


def printable(text: str, kept: str = "") -> str:
    """Return `text` without what a terminal would obey rather than show, except `kept`."""
    if text.isprintable():
        return text
    return "".join(c if _is_shown(c) or c in kept else INSTEAD for c in text)


def printable_json(text: str) -> str:
    """Return JSON that means the same; what a terminal would obey is escaped."""
    return "".join(c if _is_shown(c) or c in LAYOUT else _escaped(c) for c in text)


def _is_shown(letter: str) -> bool:
    return letter.isprintable() or letter in JOINERS or category(letter) == "Zs"  # spaces


def _escaped(letter: str) -> str:
    data = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def refuse_control(value: object, *, where: str) -> None:
    """Raise an error if a text has line breaks or other control characters.

    In a script, a manifest or a command line, such a text would become more than a value. Of
    lists and tables, all texts are checked.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            refuse_control(name, where=where)
            refuse_control(item, where=f"{where} {name}".strip())
    elif isinstance(value, list | tuple):
        for item in value:
            refuse_control(item, where=where)
    elif isinstance(value, str | PurePath) and printable(text := str(value)) != text:
        raise ConfigError(
            f"line breaks and control characters are not allowed: {ascii(text)[:200]}",
            where=where,
            fix="take them out",
        )


@contextmanager
def writing(name: str) -> Iterator[None]:
    """Turn a full disk into an error for the user; whoever closed a pipe needs none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnisonoError(
            f"{name} cannot be written: {error.strerror}",
            fix="make room, or send the output elsewhere",
        ) from error


class PrintableStream:
    """A text stream that shows what is written to it and obeys nothing in it.

    `styled` is the stream below, for those who write colours of their own.
    """

    def __init__(self, styled: TextIO, name: str) -> None:
        self.styled, self._name = styled, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.styled, attribute)

    def write(self, text: str) -> int:
        """Write `text`, its line feeds and tabs included."""
        with writing(self._name):
            return self.styled.write(printable(text, LAYOUT))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all `lines`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Force out what was written."""
        with writing(self._name):
            self.styled.flush()


def guard_output() -> None:
    """Filter standard output and error; a closed stream becomes an empty one.

    A terminal that knows fewer characters than we write shows question marks.
    """
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        if isinstance(stream, PrintableStream):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
        words = {"stdout": "standard output", "stderr": "standard error"}
        setattr(sys, name, PrintableStream(stream, words[name]))


def styled(stream: TextIO) -> TextIO:
    """Return the stream below the filter, if there is one."""
    return cast(TextIO, getattr(stream, "styled", stream))
