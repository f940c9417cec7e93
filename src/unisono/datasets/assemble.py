"""One set from the members of its archives: two files of as many lines, or an error."""

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from unisono.datasets.entry import Entry, Set, Side
from unisono.datasets.lock_file import Text
from unisono.datasets.text_formats import Reader
from unisono.errors import DataError

LINES_AT_ONCE = 20_000


@dataclass(frozen=True)
class AssemblyStep:
    """How far some work on this machine has come, in bytes."""

    work: str
    name: str
    done: int
    total: int


@dataclass(frozen=True)
class Made:
    """A finished text under its temporary path, and what the lock will say of it."""

    path: Path
    text: Text


@dataclass(frozen=True)
class Unpacked:
    """Where the members that sets are made of lie for the moment: by download and member."""

    paths: dict[tuple[str, str], Path]

    def of(self, side: Side) -> list[Path]:
        """Return the files of a side in their order."""
        return [self.paths[key] for key in keys_of(side)]


def keys_of(side: Side) -> list[tuple[str, str]]:
    """Return download and member of all that a side is made of; "" for a file by itself."""
    return [(side.file, member) for member in side.members or ("",)]


def assemble(
    item: Set, entry: Entry, unpacked: Unpacked, directory: Path
) -> Generator[AssemblyStep, None, list[Made]]:
    """Write both sides of `item` into `directory`, and check them against each other."""
    total = sum(p.stat().st_size for side in item.sides.values() for p in unpacked.of(side))
    made, readers, done = [], [], 0
    for language in entry.languages:
        side = item.sides[language]
        sources = [
            Reader(path, item.format, side.column, f"{member or name} from {name}")
            for (name, member), path in zip(keys_of(side), unpacked.of(side), strict=True)
        ]
        path = directory / f"{item.name}.{language}"
        writing = TextWriter(path, _selected(item, sources))
        for written in writing:
            yield AssemblyStep("writing", item.name, min(done + written, total), total)
        done += sum(source.stat().st_size for source in unpacked.of(side))
        made.append(Made(path, _describe(item, language, writing)))
        readers.append(sources)
    _check_sides(item, made, readers)
    return made


class TextWriter:
    """Write sentences to a file; iterating does the work and gives the bytes so far."""

    def __init__(self, path: Path, sentences: Iterable[bytes]) -> None:
        self._path, self._sentences = path, iter(sentences)
        self.bytes = self.lines = 0
        self.sha256 = hashlib.sha256()

    def __iter__(self) -> Iterator[int]:
        with self._path.open("wb") as file:
            while batch := list(islice(self._sentences, LINES_AT_ONCE)):
                data = b"\n".join(batch) + b"\n"
                file.write(data)
                self.sha256.update(data)
                self.bytes += len(data)
                self.lines += len(batch)
                yield self.bytes
            file.flush()
            os.fsync(file.fileno())


def recipe_of(item: Set, side: Side) -> str:
    """Say in words how a side is made; a set whose recipe changes is another set."""
    parts: list[str] = [item.format]
    if side.column:
        parts.append(f"column {side.column}")
    if item.only_every:
        parts.append(f"only every {item.only_every}th line")
    if item.without_every:
        parts.append(f"without every {item.without_every}th line")
    return ", ".join(parts)


def _selected(item: Set, sources: list[Reader]) -> Iterator[bytes]:
    """Yield the sentences of all sources that belong to the set."""
    every = item.only_every or item.without_every
    number = 0
    for source in sources:
        for sentence in source:
            number += 1
            if not every or (number % every == 0) == bool(item.only_every):
                yield sentence


def _describe(item: Set, language: str, written: TextWriter) -> Text:
    side = item.sides[language]
    return Text(
        name=f"{item.name}.{language}",
        set=item.name,
        role=item.role,
        language=language,
        bytes=written.bytes,
        lines=written.lines,
        sha256=written.sha256.hexdigest(),
        download=side.file,
        members=side.members,
        recipe=recipe_of(item, side),
    )


def _check_sides(item: Set, made: list[Made], readers: list[list[Reader]]) -> None:
    """Refuse sides that do not belong together line by line, as far as it can be seen."""
    for source, target in zip(*readers, strict=False):
        if source.lines != target.lines:
            raise DataError(
                f"the sides of {item.name} do not belong together: "
                f"{source.lines:,} lines and {target.lines:,} lines",
                where=f"{source.where} and {target.where}",
                fix="check the members and the format of the entry",
            )
        # The talks of IWSLT's test sets are known to disagree; those of training text are not.
        if item.format != "xml" and _shifted(source.documents, target.documents):
            raise DataError(
                f"the documents of {item.name} begin at other lines on the other side",
                where=f"{source.where} and {target.where}",
                fix="check the members of the entry",
            )
    first, second = (one.text for one in made)
    if first.lines != second.lines:
        raise DataError(
            f"{first.name} has {first.lines:,} lines and {second.name} {second.lines:,}",
            where=f"{first.download}, {second.download}",
            fix="check the members of the entry",
        )
    if item.pairs not in (0, first.lines):
        raise DataError(
            f"{item.name} has {first.lines:,} pairs instead of {item.pairs:,}",
            where=", ".join(dict.fromkeys(one.text.download for one in made)),
            fix="check the members of the entry, or the number of pairs it expects",
        )


def _shifted(first: list[int], second: list[int]) -> bool:
    return len(first) == len(second) and first != second
