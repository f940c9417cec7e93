"""Encoding lines as bytes of ids, word by word from memory where that gives the same.

Most words of a text have been seen before. Looking up their ids is several times faster
than cutting every line into pieces again.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono.corpus.layout import id_type
from unisono.corpus.writer import pack
from unisono.text.tags import cut_all
from unisono.text.tokenizer import UNKNOWN_ID, Tokenizer

_REMEMBERED_WORDS = 300_000


class LineEncoder:
    """Encodes lines with a tokenizer into the bytes of their ids."""

    def __init__(self, tokenizer: Tokenizer, remembered_words: int = _REMEMBERED_WORDS) -> None:
        self._tokenizer = tokenizer
        self._type = id_type(tokenizer.size)
        self._memory: dict[str, bytes] = {}
        self._remembered_words = remembered_words
        self._known: dict[str, bool] = {" ": True}
        self.bytes_per_id = self._type.itemsize

    def encode(self, lines: Sequence[str]) -> list[bytes]:
        """Return the ids of each line, in the type of the corpus."""
        if not self._tokenizer.encodes_words_alone:
            return self._encode_anew(lines)
        words = [line.split(" ") for line in lines]
        ids_of = self._remember(words).__getitem__
        return [b"".join(map(ids_of, line)) for line in words]

    def encode_source(self, lines: Sequence[str], tag: str = "") -> list[bytes]:
        """Return the ids of source lines, the tags they begin with as one piece each.

        With a `tag` it comes before them.
        """
        known = self._tokenizer.tags
        if not known:
            return self.encode(lines)
        first = [known[tag]] if tag else []
        tags, texts = cut_all(lines, known)
        return [
            np.array([*first, *ids], self._type).tobytes() + text
            for ids, text in zip(tags, self.encode(texts), strict=True)
        ]

    def ids(self, data: bytes) -> NDArray[Any]:
        """Return ids from their bytes."""
        return np.frombuffer(data, self._type)

    def knows(self, character: str) -> bool:
        """Say whether the pieces can spell `character`."""
        known = self._known.get(character)
        if known is None:
            known = UNKNOWN_ID not in self._tokenizer.encode([character])[0]
            self._known[character] = known
        return known

    def _remember(self, words: list[list[str]]) -> dict[str, bytes]:
        """Return a memory that holds all of `words`; when it grows too large, it is emptied."""
        # All new words at once: the tokenizer takes long to begin.
        new = set().union(*words) - self._memory.keys()
        if len(self._memory) + len(new) > self._remembered_words:
            self._memory.clear()
            new = set().union(*words)
        listed = list(new)
        self._memory.update(zip(listed, self._encode_anew(listed), strict=True))
        return self._memory

    def _encode_anew(self, lines: Sequence[str]) -> list[bytes]:
        packed = pack(self._tokenizer.encode(lines), self._tokenizer.size)
        ends = np.cumsum(packed.lengths * self.bytes_per_id).tolist()
        return [packed.ids[start:end] for start, end in pairwise([0, *ends])]
