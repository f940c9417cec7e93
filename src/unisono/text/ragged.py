"""Many sequences of ids in one array, one behind the other."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[Any]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class RaggedRows:
    """Sentences or words end to end, and how many ids each has."""

    ids: Ids
    lengths: Counts

    @property
    def starts(self) -> Counts:
        """Return where each begins."""
        return np.cumsum(self.lengths) - self.lengths

    def cut(self) -> list[Ids]:
        """Return them one by one."""
        ends = np.cumsum(self.lengths).tolist()
        return [self.ids[start:end] for start, end in pairwise([0, *ends])]

    def chosen(self, indices: Counts) -> "RaggedRows":
        """Return some of them."""
        lengths = self.lengths[indices]
        return RaggedRows(self.ids[ranges(self.starts[indices], lengths)], lengths)


def ranges(starts: Counts, lengths: Counts) -> Counts:
    """Return the numbers from each start on, as many as its length, one range after another."""
    before = np.cumsum(lengths) - lengths
    numbers: Counts = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return numbers


def sums(numbers: NDArray[Any], rows: RaggedRows) -> NDArray[Any]:
    """Return the sum over each row of `numbers`, one for each id; no row may be empty."""
    return np.add.reduceat(numbers, rows.starts) if len(rows.lengths) else numbers
