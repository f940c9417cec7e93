"""Damaged files of a run: readers go on without them and say which they are."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from unisono.small_files import PARSER_ERRORS, json_table, read_bytes, read_lines, reason

T = TypeVar("T")
Table = dict[str, Any]
Decode = Callable[[Iterable[bytes], list[str]], Iterator[T]]


@dataclass
class DamageLog:
    """A sentence for each damaged file of the run at `run`, as its readers find them."""

    run: Path
    found: dict[Path, str] = field(default_factory=dict)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return which files are damaged, how, and what readers do about it."""
        return tuple(self.found.values())

    def parsed(self, path: Path, parse: Callable[[bytes], T]) -> T | None:
        """Return what `parse` makes of a file, or None if it is missing or damaged."""
        try:
            return parse(read_bytes(path))
        except FileNotFoundError:
            pass
        except (OSError, *PARSER_ERRORS) as error:
            name = path.relative_to(self.run)
            self.found[path] = f"{name} cannot be read ({reason(error)}) and counts as missing."
        return None

    def table(
        self, path: Path, parse: Callable[[bytes], dict[str, Any]] = json_table
    ) -> dict[str, Any]:
        """Return the table in a file; an empty one if there is none."""
        return self.parsed(path, parse) or {}

    def events(self, path: Path, decode: Decode[T]) -> list[T]:
        """Return the events in a file without those that are damaged."""
        damaged: list[str] = []
        events: list[T] = []
        try:
            events.extend(decode(read_lines(path), damaged))
        except OSError as error:
            self.found[path] = f"{path.relative_to(self.run)} cannot be read: {reason(error)}."
        self.lines(path, damaged)
        return events

    def lines(self, path: Path, damaged: list[str]) -> None:
        """Add a sentence about the damaged lines of a file, if there are any."""
        if damaged:
            name, count = path.relative_to(self.run), len(damaged)
            lines = "1 line is" if count == 1 else f"{count:,} lines are"
            self.found[path] = f"{name}: {lines} damaged and passed over ({damaged[0]})."
