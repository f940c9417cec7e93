"""Ragged arrays: many sequences of ids in one flat array, and their lengths."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[Any]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class RaggedRows:
    """Sentences or words one after the other, and the number of ids of each."""

    ids: Ids
    lengths: Counts

    @property
    def starts(self) -> Counts:
        """Return the offset of each row."""
        return np.cumsum(self.lengths) - self.lengths

    def split(self) -> list[Ids]:
        """Return the rows one by one."""
        ends = np.cumsum(self.lengths).tolist()
        return [self.ids[start:end] for start, end in pairwise([0, *ends])]

    def take(self, indices: Counts) -> "RaggedRows":
        """Return the rows at `indices`."""
        lengths = self.lengths[indices]
        return RaggedRows(self.ids[ranges(self.starts[indices], lengths)], lengths)


def ranges(starts: Counts, lengths: Counts) -> Counts:
    """Return `range(start, start + length)` of each pair, one range after the other."""
    before = np.cumsum(lengths) - lengths
    numbers: Counts = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return numbers


def sums(numbers: NDArray[Any], rows: RaggedRows) -> NDArray[Any]:
    """Return the sum of `numbers`, one for each id, over each row; no row may be empty."""
    return np.add.reduceat(numbers, rows.starts) if len(rows.lengths) else numbers
