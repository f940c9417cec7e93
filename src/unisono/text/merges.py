"""Merge byte pairs as SentencePiece does, or with some merges dropped at random.

Dropping some is BPE-dropout (Provilkov, Emelianenko and Voita, 2020): now and then a word
appears in other, smaller pieces, so that a model learns what those mean, too. SentencePiece
can do it as well, but its random numbers cannot be reproduced. Here many words are merged at
once, one merge per word and round; they are rows of a ragged array.

Shapes: W words, S symbols of the longest word, with a mark before and after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono.errors import ConfigError
from unisono.text.sentence_pieces import Kind, Piece, SentencePieces
from unisono.text.tokenizer import Tokenizer

Ids = NDArray[Any]
Counts = NDArray[np.int64]

_SPACE_MARK = "\u2581"
_NEVER = 2**31 - 1  # the rank of two symbols that do not merge

# (round, (W,) words still merging) -> (W,) how many merges to drop, the best first
DropMerges = Callable[[int, Counts], Counts]


@dataclass(frozen=True)
class RaggedRows:
    """Sentences or words one after the other, and the number of ids of each."""

    ids: Ids
    lengths: Counts

    @property
    def starts(self) -> Counts:
        return np.cumsum(self.lengths) - self.lengths

    def split(self) -> list[Ids]:
        """Return the rows one by one."""
        ends = np.cumsum(self.lengths).tolist()
        return [self.ids[start:end] for start, end in pairwise([0, *ends])]

    def take(self, indices: Counts) -> "RaggedRows":
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


class Merges:
    """The merges that build words from their characters.

    `begins` says for each id whether it begins a word, `merged` how many merges build it.
    Unknown pieces, bytes, symbols and tags are neither split nor merged.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        normal = {p.text: i for i, p in enumerate(pieces) if p.kind == Kind.NORMAL}
        self.begins: NDArray[np.bool_] = np.array(
            [p.kind == Kind.CONTROL or p.text.startswith(_SPACE_MARK) for p in pieces]
        )
        letters = [
            [normal[letter] for letter in p.text] if p.kind == Kind.NORMAL else [i]
            for i, p in enumerate(pieces)
        ]
        sizes = np.array([len(some) for some in letters])
        self._letters = RaggedRows(np.array([i for some in letters for i in some]), sizes)
        self._first_letter = self._letters.starts
        self.merged: Counts = sizes - 1
        self._pairs = _Pairs(normal, [-piece.score for piece in pieces])

    def segment(self, words: RaggedRows, drop: DropMerges | None = None) -> RaggedRows:
        """Split words, given by ids, into characters, and merge these again.

        Each round applies one merge to each word: that of the highest score, or a later one
        if `drop` drops the first ones. A word without one is done. If nothing is dropped, the
        pieces are SentencePiece's.
        """
        symbols = self._symbols(words)
        width, state = symbols.shape[1], _Merging(symbols, self._pairs)
        going = np.arange(len(symbols))
        for number in count():
            ranks = state.ranks[going]
            place = ranks.argmin(1)  # of equals the leftmost, as in SentencePiece
            if drop is not None:
                _skip_dropped(place, ranks, drop(number, going))
            goes_on = ranks[np.arange(len(going)), place] < _NEVER
            going, place = going[goes_on], place[goes_on]
            if not len(going):
                break
            state.merge(going * width + place)
        known = symbols != self._pairs.mark
        return RaggedRows(symbols[known], known.sum(1))

    def _symbols(self, words: RaggedRows) -> Counts:
        """Return the characters of words (W, S)."""
        sizes = self._letters.lengths[words.ids]
        letters = self._letters.ids[ranges(self._first_letter[words.ids], sizes)]
        lengths = sums(sizes, words)
        symbols = np.full((len(lengths), int(lengths.max()) + 2), self._pairs.mark)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        symbols[rows, ranges(np.ones_like(lengths), lengths)] = letters
        return symbols


class _Merging:
    """The state of many words. A symbol merged into the one before it becomes a mark; `ranks`
    (W, S) are the ranks of each symbol with the next one that is left.
    """

    def __init__(self, symbols: Counts, pairs: "_Pairs") -> None:
        self._symbols, self._pairs = symbols.ravel(), pairs
        numbers = np.arange(symbols.size)
        self._next, self._previous = numbers + 1, numbers - 1
        # The last symbol of all is a mark, too, and never merges.
        self._pair = pairs.of(self._symbols, np.roll(self._symbols, -1))
        self._ranks = pairs.ranks[self._pair]
        self.ranks = self._ranks.reshape(symbols.shape)

    def merge(self, at: Counts) -> None:
        """Merge the symbols `at` these places, one per word, with the next ones."""
        gone, left = self._next[at], self._previous[at]
        right, merged = self._next[gone], self._pairs.results[self._pair[at]]
        self._symbols[at], self._symbols[gone] = merged, self._pairs.mark
        self._next[at], self._previous[right] = right, at
        changed = np.concatenate([left, at])
        before = np.concatenate([self._symbols[left], merged])
        pair = self._pairs.of(before, np.concatenate([merged, self._symbols[right]]))
        self._pair[changed], self._ranks[changed] = pair, self._pairs.ranks[pair]
        self._ranks[gone] = _NEVER


class _Pairs:
    """The pairs of symbols that merge: each has a number, and all other pairs share the last.

    By that number `ranks` (the lowest merges first) and `results` (what the pair becomes).
    `mark` is a symbol that never merges.
    """

    def __init__(self, normal: dict[str, int], costs: list[float]) -> None:
        self.mark = len(costs)
        found = [
            (self._key(normal[text[:cut]], normal[text[cut:]]), result)
            for text, result in normal.items()
            for cut in range(1, len(text))
            if text[:cut] in normal and text[cut:] in normal
        ]
        keys, self.results = np.array([*sorted(found), (2**62, 0)]).T.copy()
        self._keys = keys
        _, self.ranks = np.unique(np.array(costs)[self.results], return_inverse=True)
        self.ranks[-1] = _NEVER

    def of(self, left: Counts, right: Counts) -> Counts:
        """Return the numbers of pairs of symbols."""
        keys: Counts = self._key(left, right)
        numbers: Counts = np.searchsorted(self._keys, keys)
        numbers[self._keys[numbers] != keys] = len(self._keys) - 1
        return numbers

    def _key(self, left: Any, right: Any) -> Any:
        return left * (self.mark + 1) + right


def _skip_dropped(place: Counts, ranks: Counts, dropped: Counts) -> None:
    """Put into `place` the merges that come next after the dropped ones."""
    rows = np.flatnonzero(dropped)
    if len(rows):
        order = ranks[rows].argsort(1, kind="stable")
        # The last in order is a mark, which never merges.
        following = np.minimum(dropped[rows], ranks.shape[1] - 1)
        place[rows] = order[np.arange(len(rows)), following]


def merges_of(tokenizer: Tokenizer, *, where: str) -> Merges:
    """Return the merges of `tokenizer`; raise an error if it is not a BPE model."""
    if not isinstance(tokenizer, SentencePieces) or not tokenizer.is_bpe:
        raise _cannot(where, "the pieces of this corpus are not byte-pair merges")
    pieces = tokenizer.pieces()
    if obstacle := _obstacle(pieces, tokenizer.space_as_suffix):
        raise _cannot(where, f"the words of this corpus cannot be merged again: {obstacle}")
    return Merges(pieces)


def _obstacle(pieces: Sequence[Piece], space_as_suffix: bool) -> str:
    if space_as_suffix:
        return "its model marks spaces behind words"
    normal = [piece.text for piece in pieces if piece.kind == Kind.NORMAL]
    if across := [text for text in normal if _SPACE_MARK in text[1:]]:
        return f"its model has pieces that span several words, such as {across[0]!r}"
    if any(piece.kind == Kind.UNUSED for piece in pieces):
        return "its model has unused pieces"
    lacking = set("".join(normal)) - set(normal)
    return f"its model has no piece for {min(lacking)!r} alone" if lacking else ""


def _cannot(where: str, what: str) -> ConfigError:
    return ConfigError(
        what,
        where=where,
        fix='set `bpe_dropout = 0`, or prepare a corpus with `pieces = "bpe"`',
    )
