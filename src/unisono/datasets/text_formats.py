"""Text as it was published, to one sentence a line.

A line ends at a line feed and nowhere else; a carriage return goes only if it stands right
before one. Nothing here knows what an entity of somebody else's may refer to: there is no XML
parser, only tags that are looked for.
"""

import html
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

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

    `documents` are the numbers of lines before each document (a talk, an article), as far as
    the format tells: those of source and target must be the same.
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
                    f"a line of {len(fields)} columns; column {self._column} is wanted",
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
            what, where=place, fix=f"it is not in the format `{self._format}` the entry names"
        )
