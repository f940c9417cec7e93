"""Make one set of a corpus: two files of parallel lines from the published files.

A line ends at a line feed and nowhere else; a carriage return goes only if it stands right
before one. There is no XML parser, so no entity of a published file is ever resolved.
"""

import hashlib
import html
import os
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from unisono.datasets.corpus_directory import Text
from unisono.datasets.entry import Entry, Set, Side, recipe_of
from unisono.errors import DataError

_READ_BYTES = 1 << 20
_LONGEST_LINE = 16 << 20
_LARGEST_MARKUP = 256 << 20
_LONGEST_SEGMENT = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TAG = re.compile(r"<(/?)(seg|doc)(?=[\s>/])[^<>]*>", re.IGNORECASE)
_BREAK = re.compile(r"[ \t]*(?:\r\n|\n|\r)[ \t\r\n]*")
_ABOUT_THE_TALK = re.compile(
    rb"\s*</?(url|talkid|keywords|speaker|reviewer|translator|transcript|doc)\b[^<>]*>",
    re.IGNORECASE,
)
_KEPT_TAG = re.compile(rb"</?(?:title|description)\s*>", re.IGNORECASE)


class Reader:
    """The sentences of one published file.

    `documents` counts the lines before each document (a talk, an article), if the format
    marks documents: source and target must agree.
    """

    def __init__(self, path: Path, format: str, column: int, where: str) -> None:
        self._path, self._format, self._column, self.where = path, format, column, where
        self.lines = 0
        self.documents: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        """Yield each sentence without its line feed, as UTF-8."""
        for sentence in self._sentences():
            self.lines += 1
            yield sentence

    def _sentences(self) -> Iterator[bytes]:
        if self._format in ("sgml", "xml"):
            return self._segments()
        if self._format == "iwslt-tags":
            return self._tagged()
        if self._format == "tsv":
            return self._fields()
        return self._plain()

    def _plain(self) -> Iterator[bytes]:
        """Yield the lines of the file as they are, also if they are not UTF-8."""
        with self._path.open("rb") as file:
            first = file.readline(_LONGEST_LINE).removeprefix(_BYTE_ORDER_MARK)
            lines = iter(lambda: file.readline(_LONGEST_LINE), b"")
            for line in chain([first] if first else [], lines):
                if len(line) >= _LONGEST_LINE:
                    raise self._error(
                        f"a line of more than {_LONGEST_LINE:,} bytes", self.lines + 1
                    )
                ended = line.endswith(b"\n")
                yield line[:-1].removesuffix(b"\r") if ended else line

    def _tagged(self) -> Iterator[bytes]:
        for line in self._plain():
            about = _ABOUT_THE_TALK.match(line)
            if about is None:
                yield _KEPT_TAG.sub(b"", line).strip(b" \t")
            elif about[1].lower() == b"talkid":
                self.documents.append(self.lines)

    def _fields(self) -> Iterator[bytes]:
        for line in self._plain():
            fields = line.split(b"\t")
            if len(fields) < self._column:
                raise self._error(
                    f"a line of {len(fields)} columns; column {self._column} is needed",
                    self.lines + 1,
                )
            yield fields[self._column - 1]

    def _segments(self) -> Iterator[bytes]:
        text = self._markup()
        begin = -1
        for tag in _TAG.finditer(text):
            end, name = bool(tag[1]), tag[2].lower()
            if name == "doc":
                if not end:
                    self.documents.append(self.lines)
            elif end and begin >= 0:
                yield self._segment(text, begin, tag.start())
                begin = -1
            elif end or begin >= 0:
                raise self._error(
                    "a <seg> inside another" if begin >= 0 else "a </seg> without a <seg>",
                    text.count("\n", 0, tag.start()) + 1,
                )
            elif tag[0].endswith("/>"):
                yield b""
            else:
                begin = tag.end()
        if begin >= 0:
            raise self._error("a <seg> that does not end", text.count("\n", 0, begin) + 1)

    def _segment(self, text: str, begin: int, end: int) -> bytes:
        if end - begin > _LONGEST_SEGMENT:
            line = text.count("\n", 0, begin) + 1
            raise self._error(f"a <seg> of {end - begin:,} characters", line)
        plain = html.unescape(text[begin:end])
        return _BREAK.sub(" ", plain).strip().encode("utf-8")

    def _markup(self) -> str:
        size = self._path.stat().st_size
        if size > _LARGEST_MARKUP:
            raise self._error(f"{size:,} bytes are too many for a file of segments")
        data = self._path.read_bytes().removeprefix(_BYTE_ORDER_MARK)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self._error(
                f"byte 0x{data[error.start]:02x} is not UTF-8: {error.reason}", line
            ) from error

    def _error(self, what: str, line: int = 0) -> DataError:
        place = f"{self.where}, line {line}" if line else self.where
        return DataError(
            what,
            where=place,
            fix=f"the file is not in the format `{self._format}` that the entry names",
        )


LINES_AT_ONCE = 20_000


@dataclass(frozen=True)
class AssemblyStep:
    """The progress of unpacking or writing, in bytes."""

    work: str
    name: str
    done: int
    total: int


@dataclass(frozen=True)
class Made:
    """A finished text under its temporary path, and what lock.json will say about it."""

    path: Path
    text: Text


@dataclass(frozen=True)
class Unpacked:
    """The temporary paths of unpacked members, by download and member."""

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
    """Write sentences to a file; iterating does the work and yields the bytes so far."""

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
    """Refuse sides that visibly do not correspond line by line."""
    for source, target in zip(*readers, strict=False):
        if source.lines != target.lines:
            raise DataError(
                f"the sides of {item.name} do not correspond: "
                f"{source.lines:,} lines and {target.lines:,} lines",
                where=f"{source.where} and {target.where}",
                fix="check the members and the format of the entry",
            )
        # The talks of IWSLT's test sets are known to disagree; those of training text are not.
        if item.format != "xml" and _shifted(source.documents, target.documents):
            raise DataError(
                f"the documents of {item.name} begin at different lines on the two sides",
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
