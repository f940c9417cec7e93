"""Where the words are in many sentences of ids at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unisono.text.merges import Merges
from unisono.text.rows import Counts, Rows, ranges, sums

Numbers = NDArray[np.uint64]


class Words:
    """The words of some sentences, in order.

    Of each there are the number of its sentence and its `place` in there, `merged`, by how
    many merges it is made, and a hash of its ids.
    """

    def __init__(self, sentences: Rows, merges: Merges) -> None:
        begins = merges.begins[sentences.ids]
        begins[sentences.starts[sentences.lengths > 0]] = True
        starts = np.flatnonzero(begins)
        self.rows = Rows(sentences.ids, np.diff(np.append(starts, len(begins))))
        self._sentences = len(sentences.lengths)
        numbers = np.repeat(np.arange(self._sentences), sentences.lengths)
        self.sentence: Counts = numbers[starts]
        self.place = _places(np.bincount(self.sentence, minlength=self._sentences))
        letters = sentences.ids.astype(np.uint64) << np.uint64(32)
        self.hashes: Numbers = sums(mixed(letters | _places(self.rows.lengths)), self.rows)
        self.merged: Counts = sums(merges.merged[sentences.ids], self.rows)

    def replaced(self, changed: NDArray[np.bool_], spellings: Sequence[bytes]) -> Rows:
        """Return the sentences with other ids, in bytes, for the words that are `changed`."""
        ids, lengths = self.rows.ids, self.rows.lengths.copy()
        sizes = np.fromiter(map(len, spellings), np.int64, len(spellings))
        lengths[changed] = sizes // ids.itemsize
        is_new = np.repeat(changed, lengths)
        result = np.empty(len(is_new), ids.dtype)
        result[is_new] = np.frombuffer(b"".join(spellings), ids.dtype)
        result[~is_new] = ids[np.repeat(~changed, self.rows.lengths)]
        totals = np.bincount(self.sentence, lengths, self._sentences)
        return Rows(result, totals.astype(np.int64))


def mixed(numbers: Numbers) -> Numbers:
    """Return numbers that look unrelated even if those given follow one another.

    Multiplied and shifted as SplitMix64 does it, modulo 2^64.
    """
    result = numbers + np.uint64(0x9E3779B97F4A7C15)
    result = (result ^ result >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    result = (result ^ result >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return result ^ result >> np.uint64(31)


def _places(lengths: Counts) -> Numbers:
    """Count from 0 in each row."""
    return ranges(np.zeros_like(lengths), lengths).astype(np.uint64)
