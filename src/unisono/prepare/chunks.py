"""Portions of parallel text: the same number of whole lines of both sides, undecoded."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from unisono.corpus.manifest import Input
from unisono.errors import DataError
from unisono.prepare.inputs import RawPair
from unisono.prepare.reading import TextReader

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
