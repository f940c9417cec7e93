"""Byte pairs merged as SentencePiece merges them, or with some merges left out by chance.

Leaving some out is BPE-dropout (Provilkov, Emelianenko and Voita, 2020): now and then a word
comes in other and smaller pieces, so that a model learns what those mean, too. SentencePiece
does it as well, but with random numbers that nobody can make the same again. Here many words
are merged at once, each by one merge in each round.

Shapes: W words, S symbols of the longest word, with a mark before and behind.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono.errors import ConfigError
from unisono.text.ragged import Counts, RaggedRows, ranges, sums
from unisono.text.sentence_pieces import SentencePieces
from unisono.text.spm_proto import Kind, Piece
from unisono.text.tokenizer import Tokenizer

_SPACE_MARK = "\u2581"
_NEVER = 2**31 - 1  # the rank of two symbols that do not merge

# (round, (W,) words that go on) -> (W,) how many merges, the best first, are left out
LeftOut = Callable[[int, Counts], Counts]


class Merges:
    """How words are merged from their characters.

    `begins` says of each id whether a word begins with it, `merged` by how many merges it is
    made. Unknown pieces, bytes, symbols and tags are neither cut nor merged.
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

    def spell(self, words: RaggedRows, left_out: LeftOut | None = None) -> RaggedRows:
        """Return words, given by ids, merged from their characters again.

        In each round a word is merged once: by the merge of the highest score, or if
        `left_out` says so by the next one or the one after; if there is none, it is done. If
        nothing is left out, the pieces are SentencePiece's.
        """
        symbols = self._symbols(words)
        width, state = symbols.shape[1], _Merging(symbols, self._pairs)
        going = np.arange(len(symbols))
        for number in count():
            ranks = state.ranks[going]
            place = ranks.argmin(1)  # of equals the left one, as with SentencePiece
            if left_out is not None:
                _pass_over(place, ranks, left_out(number, going))
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
    """The state of many words: `symbols`, where one that was merged into that before it is a
    mark, and the `ranks` (W, S) of each with the next that is left.
    """

    def __init__(self, symbols: Counts, pairs: "_Pairs") -> None:
        self._symbols, self._pairs = symbols.ravel(), pairs
        numbers = np.arange(symbols.size)
        self._next, self._previous = numbers + 1, numbers - 1
        # The last of all is a mark, too: whatever it is paired with never merges.
        self._pair = pairs.of(self._symbols, np.roll(self._symbols, -1))
        self._ranks = pairs.ranks[self._pair]
        self.ranks = self._ranks.reshape(symbols.shape)

    def merge(self, at: Counts) -> None:
        """Merge the symbols `at` these places, one for each word, with the next ones."""
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
    """Which two symbols merge: a number for each such pair, and the last for all others.

    By that number `ranks` are the lower the sooner they merge, and `results` what they become.
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


def _pass_over(place: Counts, ranks: Counts, left_out: Counts) -> None:
    """Put into `place` the merges that come next after those that are left out."""
    rows = np.flatnonzero(left_out)
    if len(rows):
        order = ranks[rows].argsort(1, kind="stable")
        # The last in order never merges: it is a mark.
        following = np.minimum(left_out[rows], ranks.shape[1] - 1)
        place[rows] = order[np.arange(len(rows)), following]


def merges_of(tokenizer: Tokenizer, *, where: str) -> Merges:
    """Return the merges behind `tokenizer`; an error if it makes its pieces otherwise."""
    if not isinstance(tokenizer, SentencePieces) or not tokenizer.file.byte_pairs:
        raise _cannot(where, "the pieces of this corpus are not made by merging byte pairs")
    pieces = tokenizer.pieces()
    if trouble := _trouble(pieces, tokenizer.file.spaces_behind):
        raise _cannot(where, f"the words of this corpus cannot be merged again: {trouble}")
    return Merges(pieces)


def _trouble(pieces: Sequence[Piece], spaces_behind: bool) -> str:
    if spaces_behind:
        return "its model of pieces has spaces behind words"
    normal = [piece.text for piece in pieces if piece.kind == Kind.NORMAL]
    if across := [text for text in normal if _SPACE_MARK in text[1:]]:
        return f"its model has pieces of more than one word, such as {across[0]!r}"
    if any(piece.kind == Kind.UNUSED for piece in pieces):
        return "its model has pieces that are not used"
    lacking = set("".join(normal)) - set(normal)
    return f"its model has no piece for {min(lacking)!r} alone" if lacking else ""


def _cannot(where: str, what: str) -> ConfigError:
    return ConfigError(
        what,
        where=where,
        fix='set `bpe_dropout = 0`, or prepare a corpus with `pieces = "bpe"`',
    )
