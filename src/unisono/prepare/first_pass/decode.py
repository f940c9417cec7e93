"""Decode the bytes of a chunk into lines of text, and find the lines that are not text.

A carriage return before a line feed is removed. Everything else that some programs treat as
the end of a line (U+2028, U+0085, form feed …) is text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unisono.errors import DataError
from unisono.prepare.first_pass.read_files import Chunk, check_decompresses

NOT_UTF8 = "invalid UTF-8"
NUL = "NUL byte"
TOO_MANY_BYTES = "line over 1 MiB"
TOO_FEW_COLUMNS = "too few columns"

_LONGEST_LINE = 1 << 20
_BYTES_PER_CHARACTER = 4  # at most
_SHOWN_BYTES = 1000


@dataclass(frozen=True)
class DecodedChunk:
    """Both sides of a chunk. `invalid` has the index of every invalid line and its fault; the
    text of such a line is clipped, and only good as an example.
    """

    source: list[str]
    target: list[str]
    invalid: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Fault:
    reason: str
    what: str
    fix: str


def decode_chunk(chunk: Chunk, *, drop_invalid: bool) -> DecodedChunk:
    """Decode a chunk; at an invalid line raise an error or, if `drop_invalid`, record it."""
    invalid: dict[int, str] = {}
    sides = []
    for path, text in zip(chunk.raw.files, chunk.text, strict=True):
        lines = _decode(text)
        if lines is None:
            lines = []
            for index, (line, fault) in enumerate(_decode_line_by_line(text)):
                lines.append(line)
                if fault:
                    _check_may_drop(fault, chunk, path, index, drop_invalid)
                    invalid.setdefault(index, fault.reason)
        sides.append(lines)
    if chunk.raw.columns:
        return _split_columns(chunk, sides[0], invalid, drop_invalid)
    return DecodedChunk(sides[0], sides[1], invalid)


def _decode(text: bytes) -> list[str] | None:
    """Return the lines, or None if any of them may be invalid."""
    if b"\0" in text:
        return None
    try:
        lines = text.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        return None
    lines.pop()
    return lines if max(map(len, lines)) <= _LONGEST_LINE // _BYTES_PER_CHARACTER else None


def _decode_line_by_line(text: bytes) -> Iterator[tuple[str, _Fault | None]]:
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


def _split_columns(
    chunk: Chunk, lines: list[str], invalid: dict[int, str], drop_invalid: bool
) -> DecodedChunk:
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
            fault = _Fault(TOO_FEW_COLUMNS, what, "separate the columns by tabs; see `columns`")
            _check_may_drop(fault, chunk, chunk.raw.source, index, drop_invalid)
            invalid[index] = TOO_FEW_COLUMNS
    return DecodedChunk(sides[0], sides[1], invalid)


def _check_may_drop(
    fault: _Fault, chunk: Chunk, path: Path, index: int, drop_invalid: bool
) -> None:
    if drop_invalid:
        return
    check_decompresses(path)  # a damaged file may look like anything
    may_drop = '; or drop such lines: --invalid drop, or corpus.invalid = "drop"'
    raise DataError(
        fault.what,
        where=f"{path}, line {chunk.first_line + index + 1}",
        fix=fault.fix + (may_drop if chunk.raw.split == "train" else ""),
    )
