"""Random segmentations of words, drawn from a few of each; for many sentences at once.

A segmentation depends on the seed, the word and its number alone, so it does not matter when,
where or how often it is computed: what has been computed is only cached.
"""

import math
from collections.abc import Sequence
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.manifest import id_type
from unisono.text.merges import Counts, Merges, RaggedRows, ranges, sums

Uint64s = NDArray[np.uint64]


class WordSpans:
    """The words of some sentences, in order.

    For each word: the number of its `sentence`, its `place` in the sentence, how many merges
    build it (`merged`), and a hash of its ids.
    """

    def __init__(self, sentences: RaggedRows, merges: Merges) -> None:
        begins = merges.begins[sentences.ids]
        begins[sentences.starts[sentences.lengths > 0]] = True
        starts = np.flatnonzero(begins)
        self.rows = RaggedRows(sentences.ids, np.diff(np.append(starts, len(begins))))
        self._sentences = len(sentences.lengths)
        numbers = np.repeat(np.arange(self._sentences), sentences.lengths)
        self.sentence: Counts = numbers[starts]
        self.place = _places(np.bincount(self.sentence, minlength=self._sentences))
        letters = sentences.ids.astype(np.uint64) << np.uint64(32)
        self.hashes: Uint64s = sums(splitmix64(letters | _places(self.rows.lengths)), self.rows)
        self.merged: Counts = sums(merges.merged[sentences.ids], self.rows)

    def replaced(
        self, changed: NDArray[np.bool_], segmentations: Sequence[bytes]
    ) -> RaggedRows:
        """Return the sentences with new ids, as bytes, for the `changed` words."""
        ids, lengths = self.rows.ids, self.rows.lengths.copy()
        sizes = np.fromiter(map(len, segmentations), np.int64, len(segmentations))
        lengths[changed] = sizes // ids.itemsize
        is_new = np.repeat(changed, lengths)
        result = np.empty(len(is_new), ids.dtype)
        result[is_new] = np.frombuffer(b"".join(segmentations), ids.dtype)
        result[~is_new] = ids[np.repeat(~changed, self.rows.lengths)]
        totals = np.bincount(self.sentence, lengths, self._sentences)
        return RaggedRows(result, totals.astype(np.int64))


def splitmix64(numbers: Uint64s) -> Uint64s:
    """Return the SplitMix64 hash of each number: consecutive numbers look unrelated."""
    result = numbers + np.uint64(0x9E3779B97F4A7C15)
    result = (result ^ result >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    result = (result ^ result >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return result ^ result >> np.uint64(31)


def _places(lengths: Counts) -> Uint64s:
    """Return 0, 1, 2 … for each row."""
    return ranges(np.zeros_like(lengths), lengths).astype(np.uint64)


Probabilities = NDArray[np.floating]

SEGMENTATIONS_PER_WORD = 16  # besides the usual one; fewer than 2^11
_CACHED_SEGMENTATIONS = 300_000
_LONG = 32  # merges; longer words are segmented apart, so as not to slow down the others
_SMALLEST = 2.0**-53  # the smallest number above 0 that `_uniform` returns


class Segmentations:
    """Segment words, dropping each merge with the probability `dropout`.

    The usual segmentation comes as often as no merge happens to be dropped. Otherwise it is
    one of a few, each with at least one merge dropped.
    """

    def __init__(
        self, merges: Merges, dropout: float, seed: int, cached: int = _CACHED_SEGMENTATIONS
    ) -> None:
        self._merges = merges
        self._dropout = dropout
        rarest = math.ceil(math.log(_SMALLEST) / math.log(dropout)) if dropout else 0
        self._powers = np.cumprod([*repeat(dropout, rarest)])[::-1].copy()
        self._seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._type = id_type(len(merges.begins))
        self._cache = _Cache(cached)

    def resegment(self, sentences: RaggedRows, keys: Uint64s) -> RaggedRows:
        """Return the sentences in other pieces, which depend on the key of each."""
        words = WordSpans(sentences, self._merges)
        random = splitmix64(keys[words.sentence] + words.place)
        changed = _uniform(random) >= self._unchanged(words.merged)[words.merged]
        numbers = random[changed] % np.uint64(SEGMENTATIONS_PER_WORD)
        return words.replaced(changed, self._look_up(words, np.flatnonzero(changed), numbers))

    def _unchanged(self, merged: Counts) -> Probabilities:
        """Return the probability that none of 0, 1, 2 … merges is dropped."""
        kept = repeat(1 - self._dropout, int(merged.max(initial=0)))
        likely: Probabilities = np.cumprod([1.0, *kept])
        return likely

    def _look_up(self, words: WordSpans, chosen: Counts, numbers: Uint64s) -> list[bytes]:
        # Among a million segmentations two share a key with a probability of 3 in 100 million.
        keys = splitmix64(words.hashes[chosen] + numbers).tolist()
        found = self._cache.get(keys)
        missing = [index for index, segmentation in enumerate(found) if not segmentation]
        if missing:
            new = self._compute(words, {keys[index]: int(chosen[index]) for index in missing})
            for index in missing:
                found[index] = new[keys[index]]
            self._cache.add(new)
        return found

    def _compute(self, words: WordSpans, wanted: dict[int, int]) -> dict[int, bytes]:
        """Return segmentations of some words, by their keys."""
        keys, indices = np.array(list(wanted), np.uint64), np.array(list(wanted.values()))
        is_long = words.merged[indices] > _LONG
        computed: dict[int, bytes] = {}
        for group in filter(np.any, (~is_long, is_long)):
            rows, merged = words.rows.take(indices[group]), words.merged[indices[group]]
            segmented = self._segment(rows, merged, keys[group])
            computed |= zip(keys[group].tolist(), self._as_bytes(segmented), strict=True)
        return computed

    def _segment(self, words: RaggedRows, merged: Counts, keys: Uint64s) -> RaggedRows:
        """Return segmentations with at least one merge dropped; `merged` is the full number."""
        unchanged = self._unchanged(merged)
        # The first dropped merge is one of those of the usual segmentation.
        place = _uniform(splitmix64(keys ^ self._seed[0])) * (1 - unchanged[merged])
        first = np.searchsorted(1 - unchanged[1:], place, "right")
        drawn = splitmix64(keys ^ self._seed[1])

        def drop(number: int, going: Counts) -> Counts:
            uniform = _uniform(splitmix64(drawn[going] + np.uint64(number)))
            # n or more with the probability dropout^n.
            many = len(self._powers) - np.searchsorted(self._powers, uniform, "right")
            return np.where(number < first[going], 0, many + (number == first[going]))

        return self._merges.segment(words, drop)

    def _as_bytes(self, segmented: RaggedRows) -> list[bytes]:
        data = segmented.ids.astype(self._type).tobytes()
        ends = np.cumsum(segmented.lengths * self._type.itemsize).tolist()
        return [data[start:end] for start, end in pairwise([0, *ends])]


class _Cache:
    """Keep about `size` of the most recently used segmentations."""

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._new: dict[int, bytes] = {}
        self._old: dict[int, bytes] = {}

    def get(self, keys: Sequence[int]) -> list[bytes]:
        """Return the segmentation of each key, or b"" if it is not cached."""
        found = list(map(self._new.get, keys, repeat(b"")))
        if self._old:
            for index, segmentation in enumerate(found):
                if not segmentation and (old := self._old.get(keys[index])):
                    found[index] = self._new[keys[index]] = old
        return found

    def add(self, segmentations: dict[int, bytes]) -> None:
        """Add some; if there are too many, evict the least recently used."""
        self._new.update(segmentations)
        if len(self._new) > self._half:
            self._new, self._old = {}, self._new


def _uniform(numbers: Uint64s) -> Probabilities:
    """Return numbers in [0, 1), made of all bits but the lowest 11."""
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53
