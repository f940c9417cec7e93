"""Portions of parallel text: the same number of whole lines of both sides, undecoded.

From the bytes of a chunk to lines of text, and what is wrong with those that are none.

One carriage return before a line feed goes too. Everything else that some programs take
for the end of a line (U+2028, U+0085, form feed …) is text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from unisono.corpus.manifest import Input
from unisono.errors import DataError
from unisono.prepare.first_pass.read_files import TextReader, check_unpacks
from unisono.prepare.inputs import RawPair

LINES_PER_CHUNK = 16_384
_BYTES_PER_CHUNK = 1 << 23  # a side; lines may be long


@dataclass(frozen=True)
class Chunk:
    """Some lines of a source. `text` has one entry for each of its files; `number` counts
    chunks and `first_line` lines before it, both from 0.
    """

    raw: RawPair
    number: int
    first_line: int
    text: tuple[bytes, ...]


class PairReader:
    """The files of a source, read side by side."""

    def __init__(self, raw: RawPair) -> None:
        self._raw = raw
        self._readers = [TextReader(path) for path in raw.files]

    @property
    def bytes_read(self) -> int:
        """Return how much of the files has been read, as they lie there."""
        return sum(reader.bytes_read for reader in self._readers)

    @property
    def pairs(self) -> int:
        """Return how many pairs have been handed out."""
        return self._readers[0].lines

    def chunks(self, lines: int = LINES_PER_CHUNK) -> Iterator[Chunk]:
        """Yield all lines, at most `lines` at a time; refuse files of unequal or no length."""
        number = 0
        while True:
            for reader in self._readers:
                reader.fill(lines, _BYTES_PER_CHUNK)
            count = min(lines, *(reader.waiting for reader in self._readers))
            if not count:
                break
            first_line = self.pairs
            text = tuple(reader.take(count) for reader in self._readers)
            yield Chunk(self._raw, number, first_line, text)
            number += 1
        if any(reader.waiting for reader in self._readers):
            raise self._unequal()
        if not self.pairs:
            raise self._empty(self._readers[0])

    def record(self) -> Input:
        """Return what was read, once all of it has been."""
        records = [reader.record() for reader in self._readers]
        if self._raw.columns:
            # The same file twice, but its bytes once, so that sums are right.
            records.append(msgspec.structs.replace(records[0], bytes=0, text_bytes=0))
        return Input(
            split=self._raw.split,
            source=records[0],
            target=records[1],
            columns=list(self._raw.columns or ()),
            tag=self._raw.tag,
        )

    def _unequal(self) -> DataError:
        for reader in self._readers:
            while reader.waiting:  # to tell both counts
                reader.take(reader.waiting)
                reader.fill(LINES_PER_CHUNK, _BYTES_PER_CHUNK)
            if not reader.lines:
                return self._empty(reader)
        counts = [f"{reader.path} has {reader.lines} lines" for reader in self._readers]
        return DataError(
            "; ".join(counts),
            where=self._raw.where,
            fix="line n of one must translate line n of the other: find where they part",
        )

    def _empty(self, reader: TextReader) -> DataError:
        return DataError(
            f"{reader.path} is empty",
            where=self._raw.where,
            fix="name a file with text, or take the pair out of the settings",
        )


NOT_UTF8 = "invalid UTF-8"
NUL = "NUL byte"
TOO_MANY_BYTES = "line over 1 MiB"
TOO_FEW_COLUMNS = "too few columns"

_LONGEST_LINE = 1 << 20
_BYTES_PER_CHARACTER = 4  # at most
_SHOWN_BYTES = 1000


@dataclass(frozen=True)
class ChunkLines:
    """Both sides of a chunk. `invalid` names what is wrong with some lines, by their index;
    what is left of their text is only fit to be shown.
    """

    source: list[str]
    target: list[str]
    invalid: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Fault:
    reason: str
    what: str
    fix: str


def lines_of(chunk: Chunk, *, drop_invalid: bool) -> ChunkLines:
    """Decode a chunk; raise an error at the first invalid line, or note it."""
    invalid: dict[int, str] = {}
    sides = []
    for path, text in zip(chunk.raw.files, chunk.text, strict=True):
        lines = _decoded(text)
        if lines is None:
            lines = []
            for index, (line, fault) in enumerate(_one_by_one(text)):
                lines.append(line)
                if fault:
                    _note(fault, chunk, path, index, drop_invalid)
                    invalid.setdefault(index, fault.reason)
        sides.append(lines)
    if chunk.raw.columns:
        return _columns(chunk, sides[0], invalid, drop_invalid)
    return ChunkLines(sides[0], sides[1], invalid)


def _decoded(text: bytes) -> list[str] | None:
    """Return the lines, or None if one of them is or may be invalid."""
    if b"\0" in text:
        return None
    try:
        lines = text.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        return None
    lines.pop()
    return lines if max(map(len, lines)) <= _LONGEST_LINE // _BYTES_PER_CHARACTER else None


def _one_by_one(text: bytes) -> Iterator[tuple[str, _Fault | None]]:
    for line in text.split(b"\n")[:-1]:
        fault = _fault(line)
        shown = line[:_SHOWN_BYTES].decode("utf-8", "replace").replace("\0", "\u2400")
        yield shown if fault else line.decode("utf-8").removesuffix("\r"), fault


def _fault(line: bytes) -> _Fault | None:
    if len(line) > _LONGEST_LINE:
        what = f"a line of {len(line)} bytes; the longest that can be a sentence is 1 MiB"
        return _Fault(TOO_MANY_BYTES, what, "break it into sentences")
    if b"\0" in line:
        return _Fault(NUL, "a NUL byte", "name a text file in UTF-8, not UTF-16 or binary data")
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte 0x{line[error.start]:02x} is not UTF-8: {error.reason}"
        return _Fault(NOT_UTF8, what, "convert the file, for example: iconv -f latin1 -t utf-8")
    return None


def _columns(
    chunk: Chunk, lines: list[str], invalid: dict[int, str], drop_invalid: bool
) -> ChunkLines:
    first, second = chunk.raw.columns or (1, 2)
    sides: tuple[list[str], list[str]] = [], []
    for index, line in enumerate(lines):
        values = line.split("\t")
        if len(values) >= max(first, second) and index not in invalid:
            sides[0].append(values[first - 1])
            sides[1].append(values[second - 1])
            continue
        sides[0].append(line[:_SHOWN_BYTES])
        sides[1].append("")
        if index not in invalid:
            what = f"{len(values)} columns, but the text is in columns {first} and {second}"
            fault = _Fault(TOO_FEW_COLUMNS, what, "columns are parted by tabs; see `columns`")
            _note(fault, chunk, chunk.raw.source, index, drop_invalid)
            invalid[index] = TOO_FEW_COLUMNS
    return ChunkLines(sides[0], sides[1], invalid)


def _note(fault: _Fault, chunk: Chunk, path: Path, index: int, drop_invalid: bool) -> None:
    if drop_invalid:
        return
    check_unpacks(path)  # damage may look like anything
    may_drop = '; or drop such lines: --invalid drop, or corpus.invalid = "drop"'
    raise DataError(
        fault.what,
        where=f"{path}, line {chunk.first_line + index + 1}",
        fix=fault.fix + (may_drop if chunk.raw.split == "train" else ""),
    )
