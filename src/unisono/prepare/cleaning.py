"""Which pairs are not worth training on, and why.

A reason is a few words; the empty string keeps the pair.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from unisono.config.settings import CorpusSettings
from unisono.corpus.manifest import Dropped

EMPTY = "empty"
IDENTICAL = "identical"
DUPLICATE = "duplicate"
OVERLAP = "overlap with valid/test"
TOO_LONG = "too long"
LENGTH_RATIO = "length ratio"

# Shorter sentences ("Thank you very much.") recur by themselves, so that for them only the
# same translation is a sign of overlap.
_TELLING_CHARACTERS = 30
_EXAMPLES = 3
_EXAMPLE_CHARACTERS = 200


class Drops:
    """Count what is dropped, and keep the first examples."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[tuple[str, str]]] = {}

    def add(self, reason: str, source: str, target: str) -> None:
        """Drop one pair."""
        self._counts[reason] = self._counts.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append((source[:_EXAMPLE_CHARACTERS], target[:_EXAMPLE_CHARACTERS]))

    def summary(self) -> dict[str, Dropped]:
        """Return count and examples by reason."""
        return {
            reason: Dropped(count=count, examples=self._examples[reason])
            for reason, count in self._counts.items()
        }


class HeldOut:
    """The sentences of the validation and the test set, which training must not see."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = set(pairs)
        self._sources = {s for s, _ in self._pairs if len(s) >= _TELLING_CHARACTERS}
        self._targets = {t for _, t in self._pairs if len(t) >= _TELLING_CHARACTERS}

    def overlaps(self, source: str, target: str) -> bool:
        """Say whether a training pair gives a held-out pair away."""
        if source in self._sources or target in self._targets:
            return True
        return (source, target) in self._pairs


class TextFilter:
    """Judge normalised pairs by their text, one after the other: it remembers what it saw."""

    def __init__(self, settings: CorpusSettings, held_out: HeldOut) -> None:
        self._settings = settings
        self._held_out = held_out
        self._seen: set[bytes] = set()

    def reason(self, source: str, target: str) -> str:
        """Return why to drop the pair, or "" to keep it."""
        if not source or not target:
            return EMPTY
        if source == target:
            return IDENTICAL
        if self._settings.drop_overlap and self._held_out.overlaps(source, target):
            return OVERLAP
        if self._settings.drop_duplicates and self._saw(source, target):
            return DUPLICATE
        return ""

    def _saw(self, source: str, target: str) -> bool:
        # Eight bytes a pair instead of the text. Two of ten million different pairs share
        # theirs with a probability of 3 in a million; then one of them is lost.
        key = blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()
        if key in self._seen:
            return True
        self._seen.add(key)
        return False


class LengthFilter:
    """Judge pairs by the number of their pieces."""

    def __init__(self, settings: CorpusSettings) -> None:
        self._max_pieces = settings.max_pieces
        self._max_ratio = settings.max_length_ratio

    def reason(self, source_pieces: int, target_pieces: int) -> str:
        """Return why to drop the pair, or "" to keep it."""
        longer, shorter = max(source_pieces, target_pieces), min(source_pieces, target_pieces)
        if longer > self._max_pieces:
            return TOO_LONG
        return LENGTH_RATIO if longer > self._max_ratio * shorter else ""

    def kept(
        self, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
    ) -> NDArray[np.bool_]:
        """Say of each encoded pair whether it is kept: `reason` for many at once."""
        lengths = [np.fromiter(map(len, side), np.int64) for side in (source, target)]
        longer, shorter = np.maximum(*lengths), np.minimum(*lengths)
        kept: NDArray[np.bool_] = longer <= self._max_pieces
        return kept & (longer <= self._max_ratio * shorter)
