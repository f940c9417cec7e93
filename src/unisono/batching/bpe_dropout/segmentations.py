"""Where the words are in many sentences of ids at once.

Words in other pieces than usual, drawn by chance from a few spellings of each.

A spelling follows from the seed, the word and the number of the spelling, so it does not
matter when, where or how often it is made: what has been made is only remembered.
"""

import math
from collections.abc import Sequence
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.manifest import id_type
from unisono.text.merges import Merges
from unisono.text.ragged import Counts, RaggedRows, ranges, sums

Numbers = NDArray[np.uint64]


class WordSpans:
    """The words of some sentences, in order.

    Of each there are the number of its sentence and its `place` in there, `merged`, by how
    many merges it is made, and a hash of its ids.
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
        self.hashes: Numbers = sums(mixed(letters | _places(self.rows.lengths)), self.rows)
        self.merged: Counts = sums(merges.merged[sentences.ids], self.rows)

    def replaced(self, changed: NDArray[np.bool_], spellings: Sequence[bytes]) -> RaggedRows:
        """Return the sentences with other ids, in bytes, for the words that are `changed`."""
        ids, lengths = self.rows.ids, self.rows.lengths.copy()
        sizes = np.fromiter(map(len, spellings), np.int64, len(spellings))
        lengths[changed] = sizes // ids.itemsize
        is_new = np.repeat(changed, lengths)
        result = np.empty(len(is_new), ids.dtype)
        result[is_new] = np.frombuffer(b"".join(spellings), ids.dtype)
        result[~is_new] = ids[np.repeat(~changed, self.rows.lengths)]
        totals = np.bincount(self.sentence, lengths, self._sentences)
        return RaggedRows(result, totals.astype(np.int64))


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


Shares = NDArray[np.floating]

SPELLINGS = 16  # of each word besides the usual one; fewer than 2^11
_REMEMBERED_SPELLINGS = 300_000
_LONG = 32  # merges; words of more are spelled apart, not to slow down the others
_SMALLEST = 2.0**-53  # that a number drawn can be but 0


class Segmentations:
    """Spell words with merges left out with the probability `dropout`.

    The usual spelling comes as often as no merge happens to be left out. Otherwise it is one
    of a few, each made with at least one merge left out.
    """

    def __init__(
        self, merges: Merges, dropout: float, seed: int, remembered: int = _REMEMBERED_SPELLINGS
    ) -> None:
        self._merges = merges
        self._dropout = dropout
        rarest = math.ceil(math.log(_SMALLEST) / math.log(dropout)) if dropout else 0
        self._powers = np.cumprod([*repeat(dropout, rarest)])[::-1].copy()
        self._seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._type = id_type(len(merges.begins))
        self._memory = _Memory(remembered)

    def respell(self, sentences: RaggedRows, keys: Numbers) -> RaggedRows:
        """Return sentences in other pieces: in which, follows from the key of each."""
        words = WordSpans(sentences, self._merges)
        chances = mixed(keys[words.sentence] + words.place)
        changed = _shares(chances) >= self._usual(words.merged)[words.merged]
        numbers = chances[changed] % np.uint64(SPELLINGS)
        return words.replaced(changed, self._look_up(words, np.flatnonzero(changed), numbers))

    def _usual(self, merged: Counts) -> Shares:
        """Return how likely it is that none of so many merges is left out."""
        kept = repeat(1 - self._dropout, int(merged.max(initial=0)))
        likely: Shares = np.cumprod([1.0, *kept])
        return likely

    def _look_up(self, words: WordSpans, chosen: Counts, numbers: Numbers) -> list[bytes]:
        # Two of a million spellings share a key with a probability of 3 in 100 million.
        keys = mixed(words.hashes[chosen] + numbers).tolist()
        found = self._memory.get(keys)
        missing = [index for index, spelling in enumerate(found) if not spelling]
        if missing:
            new = self._made(words, {keys[index]: int(chosen[index]) for index in missing})
            for index in missing:
                found[index] = new[keys[index]]
            self._memory.add(new)
        return found

    def _made(self, words: WordSpans, wanted: dict[int, int]) -> dict[int, bytes]:
        """Make spellings of some words, by their keys."""
        keys, indices = np.array(list(wanted), np.uint64), np.array(list(wanted.values()))
        is_long = words.merged[indices] > _LONG
        made: dict[int, bytes] = {}
        for group in filter(np.any, (~is_long, is_long)):
            rows, merged = words.rows.take(indices[group]), words.merged[indices[group]]
            spelled = self._spell(rows, merged, keys[group])
            made |= zip(keys[group].tolist(), self._as_bytes(spelled), strict=True)
        return made

    def _spell(self, words: RaggedRows, merged: Counts, keys: Numbers) -> RaggedRows:
        """Return spellings with at least one merge left out; `merged` is the usual number."""
        usual = self._usual(merged)
        # The first merge that is left out is one of those that make the usual spelling.
        place = _shares(mixed(keys ^ self._seed[0])) * (1 - usual[merged])
        first = np.searchsorted(1 - usual[1:], place, "right")
        drawn = mixed(keys ^ self._seed[1])

        def drop(number: int, going: Counts) -> Counts:
            shares = _shares(mixed(drawn[going] + np.uint64(number)))
            # n or more with a probability of dropout^n.
            many = len(self._powers) - np.searchsorted(self._powers, shares, "right")
            return np.where(number < first[going], 0, many + (number == first[going]))

        return self._merges.segment(words, drop)

    def _as_bytes(self, spelled: RaggedRows) -> list[bytes]:
        data = spelled.ids.astype(self._type).tobytes()
        ends = np.cumsum(spelled.lengths * self._type.itemsize).tolist()
        return [data[start:end] for start, end in pairwise([0, *ends])]


class _Memory:
    """Remember the spellings that were used last, about `size` of them at most."""

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._new: dict[int, bytes] = {}
        self._old: dict[int, bytes] = {}

    def get(self, keys: Sequence[int]) -> list[bytes]:
        """Return the spelling of each key, or nothing where there is none."""
        found = list(map(self._new.get, keys, repeat(b"")))
        if self._old:
            for index, spelling in enumerate(found):
                if not spelling and (old := self._old.get(keys[index])):
                    found[index] = self._new[keys[index]] = old
        return found

    def add(self, spellings: dict[int, bytes]) -> None:
        """Remember more; if that is too many, forget those not used for long."""
        self._new.update(spellings)
        if len(self._new) > self._half:
            self._new, self._old = {}, self._new


def _shares(numbers: Numbers) -> Shares:
    """Return numbers from 0 up to 1, made of all bits but the lowest 11."""
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53
